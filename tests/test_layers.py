"""Two layers, one call: which is written, which speaks, what is tested by itself, and what it costs in certainty."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.attacks import catalogue
from ideaw.attacks.resynthesis import gsm, opus_voip
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.deep.speeds import SAME_PITCH_STEPS, TEMPO_REFINEMENTS, Playback, playbacks
from ideaw.layers import check_layers
from ideaw.quality.fidelity import lowest_snr
from ideaw.quality.modulation import modulation_audibility

KEY = ideaw.Key(bytes(range(32)))


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(key=KEY, threads=1)


@pytest.fixture(scope="module")
def host(speech: NDArray[np.float32]) -> NDArray[np.float32]:
    """Eighteen seconds, of which no two periods of the deep layer are alike."""
    return np.concatenate([speech, 0.8 * speech[::-1], 0.6 * np.roll(speech, 31_000)]).astype(np.float32)


@pytest.fixture(scope="module")
def marked(marker: ideaw.Marker, host: NDArray[np.float32]) -> NDArray[np.float32]:
    return marker.embed(host, SAMPLE_RATE, "ab")


def test_both_layers_are_found_and_say_so(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    fast = marker.detect(marked, SAMPLE_RATE)
    assert (fast.message, fast.layer) == ("ab", "fast")
    deep = marker.detect(marked, SAMPLE_RATE, layers="deep")
    assert (deep.message, deep.layer, deep.key) == ("ab", "deep", KEY.fingerprint)
    assert deep.segments[0].end == pytest.approx(18, abs=0.1)
    assert "in the deep layer" in str(deep)


def test_an_snr_is_kept_by_the_fast_layer_alone(marker: ideaw.Marker, host: NDArray[np.float32]) -> None:
    plain = marker.embed(host, SAMPLE_RATE, "ab", snr=38)
    assert lowest_snr(host, plain, SAMPLE_RATE) >= 37.99
    assert marker.detect(plain, SAMPLE_RATE, layers="deep", speeds="none").status == "none"
    both = marker.embed(host[: 6 * SAMPLE_RATE], SAMPLE_RATE, "ab", snr=38, layers="fast,deep")
    assert lowest_snr(host[: 6 * SAMPLE_RATE], both, SAMPLE_RATE) < 30


def test_a_file_with_the_deep_layer_is_not_measured_against_an_snr_that_this_does_not_keep(
    marker: ideaw.Marker, host: NDArray[np.float32], tmp_path: Path
) -> None:
    soundfile.write(tmp_path / "in.wav", host[: 4 * SAMPLE_RATE], SAMPLE_RATE)
    marker.embed_file(tmp_path / "in.wav", tmp_path / "out.wav", "ab", snr=38, layers="fast,deep")
    assert marker.detect_file(tmp_path / "out.wav", layers="fast").message == "ab"


def test_audio_in_which_no_deep_mark_is_found_does_not_get_one(marker: ideaw.Marker, host: NDArray[np.float32]) -> None:
    for seconds, layers in ((2.9, "fast"), (3.1, "fast,deep")):
        piece = host[: int(seconds * SAMPLE_RATE)]
        asked = marker.embed(piece, SAMPLE_RATE, "ab", layers=layers)
        assert np.array_equal(marker.embed(piece, SAMPLE_RATE, "ab"), asked)


def test_a_quieter_mark_is_quieter_in_both_layers(marker: ideaw.Marker, host: NDArray[np.float32]) -> None:
    usual, piece = marker.card.audibility, host[: 6 * SAMPLE_RATE]

    def heard(audibility: float) -> float:
        marked = marker.embed(piece, SAMPLE_RATE, "ab", audibility=audibility)
        return modulation_audibility(piece, marked).percentile_99

    assert heard(usual - 6) < heard(usual) - 3
    assert heard(usual + 6) == pytest.approx(heard(usual), abs=0.5)


def test_a_live_stream_is_marked_in_the_fast_layer_alone(marker: ideaw.Marker, host: NDArray[np.float32]) -> None:
    piece = host[: 6 * SAMPLE_RATE]
    asked = np.concatenate(list(marker.embed_stream([piece], SAMPLE_RATE, "ab", layers="fast")))
    assert np.array_equal(np.concatenate(list(marker.embed_stream([piece], SAMPLE_RATE, "ab"))), asked)


def test_a_file_of_a_law_gets_the_fast_layer_alone(
    marker: ideaw.Marker, host: NDArray[np.float32], tmp_path: Path
) -> None:
    source, target = tmp_path / "in.wav", tmp_path / "out.wav"
    soundfile.write(source, host[: 6 * SAMPLE_RATE], SAMPLE_RATE, subtype="ULAW")
    marker.embed_file(source, target, "ab")
    assert marker.detect_file(target).message == "ab"
    with pytest.raises(ideaw.AudioError, match="linear PCM"):
        marker.embed_file(source, target, "ab", layers="deep")


@pytest.mark.slow
def test_a_telephone_call_is_survived(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    after = gsm(marked).astype(np.float32)
    assert marker.detect(after, SAMPLE_RATE, layers="deep").message == "ab"


@pytest.mark.slow
def test_ten_seconds_of_a_call_leave_the_deep_layer_alone(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    after = gsm(marked[: 10 * SAMPLE_RATE]).astype(np.float32)
    assert not marker.detect(after, SAMPLE_RATE, layers="fast").found
    detection = marker.detect(after, SAMPLE_RATE)
    assert (detection.message, detection.layer) == ("ab", "deep")


@pytest.mark.slow
def test_a_voice_message_leaves_the_deep_layer_alone(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    after = opus_voip(marked[: 10 * SAMPLE_RATE], 8).astype(np.float32)
    assert not marker.detect(after, SAMPLE_RATE, layers="fast").found
    detection = marker.detect(after, SAMPLE_RATE)
    assert (detection.message, detection.layer) == ("ab", "deep")
    assert marker.detect(after, SAMPLE_RATE, layers="deep", expected=["ab"]).message == "ab"


def test_another_key_or_message_is_not_found(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    other = marker.detect(marked, SAMPLE_RATE, layers="deep", keys=[ideaw.Key(bytes(16))], expected=["ab"])
    assert other.status == "none"
    assert other.layer is None
    assert marker.detect(marked, SAMPLE_RATE, layers="deep", expected=["ac", b"ab"]).message == "ab"


def test_a_long_message_is_told_by_its_tag_to_whoever_expects_it(
    marker: ideaw.Marker, host: NDArray[np.float32]
) -> None:
    text = "a message that no seconds of loudness could hold"
    marked = marker.embed(host, SAMPLE_RATE, text, layers="deep")
    assert marker.detect(marked, SAMPLE_RATE, layers="deep").status == "unreadable"
    assert marker.detect(marked, SAMPLE_RATE, layers="deep", expected=["another", text]).message == text
    assert marker.detect(marked, SAMPLE_RATE, layers="deep", expected=["another"]).status == "unreadable"


def test_p_values_count_both_layers_and_both_tests(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    faint = marked[: 9 * SAMPLE_RATE // 2]
    alone = marker.detect(faint, SAMPLE_RATE, layers="deep", speeds="none").p_value
    wrong = marker.detect(faint, SAMPLE_RATE, layers="deep", speeds="none", expected=["zz"]).p_value
    assert 0 < alone < 1
    assert wrong == pytest.approx(2 * alone)
    noise = np.random.default_rng(0).normal(0, 0.01, 3 * SAMPLE_RATE)
    both = marker.detect(noise, SAMPLE_RATE, layers="fast,deep", speeds="none")
    fast = marker.detect(noise, SAMPLE_RATE, layers="fast", speeds="none")
    assert both.p_value <= min(1.0, 2 * fast.p_value) + 1e-12


def test_stereo_at_a_full_rate_is_found_in_either_channel_and_after_mixing(
    marker: ideaw.Marker, music: NDArray[np.float32]
) -> None:
    stereo = np.concatenate([music, music[::-1], music])
    marked = marker.embed(stereo, 44_100, b"\x01\x02", layers="deep")
    assert marked.shape == stereo.shape
    for heard in (marked, marked[:, 0], marked[:, 1], marked.mean(1), marked * [1, -1], marked * [1, 0]):
        assert marker.detect(heard, 44_100, layers="deep").message == b"\x01\x02"


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.8, 0.95, 1.01, 1.25])
def test_other_speeds_are_found(marker: ideaw.Marker, marked: NDArray[np.float32], factor: float) -> None:
    played = soxr.resample(marked, SAMPLE_RATE * factor, SAMPLE_RATE)
    detection = marker.detect(played, SAMPLE_RATE, layers="deep", speeds="all")
    assert detection.message == "ab"
    assert detection.speed == pytest.approx(factor, rel=0.004)
    untold = marker.detect(played, SAMPLE_RATE, layers="deep")
    assert untold.found == (0.94 < factor < 1.06)


@pytest.mark.slow
def test_the_deep_layer_tells_a_tempo_from_a_speed(marker: ideaw.Marker, marked: NDArray[np.float32]) -> None:
    slower = catalogue.run("tempo", marked, SAMPLE_RATE, factor=0.95)
    detection = marker.detect(slower, SAMPLE_RATE, layers="deep")
    assert (detection.message, detection.speed) == ("ab", 1)
    assert detection.tempo == pytest.approx(0.95, rel=0.004)


def test_playbacks_are_told_as_they_were_tried() -> None:
    tried = [replace(played, tempo=played.tempo * f) for played in playbacks("all") for f in TEMPO_REFINEMENTS]
    speeds = [played for played in tried if not played.keeps_pitch]
    tempos = [played for played in tried if played.keeps_pitch]
    assert len(tempos) == 2 * (37 - SAME_PITCH_STEPS) * len(TEMPO_REFINEMENTS)
    assert all(played.quartertones == 0 and abs(played.tempo - 1) > 0.03 for played in tempos)
    assert {played.tempo for played in tempos} <= {played.tempo for played in speeds}
    assert not Playback().keeps_pitch


def test_a_part_that_is_marked_is_found_in_longer_audio(
    marker: ideaw.Marker, host: NDArray[np.float32], marked: NDArray[np.float32]
) -> None:
    spliced = np.concatenate([host[5_000:], np.roll(host, 7_000), marked[3_333:], host])
    detection = marker.detect(spliced, SAMPLE_RATE, layers="deep", speeds="none")
    assert detection.message == "ab"


@pytest.mark.slow
def test_streams_are_marked_and_searched(marker: ideaw.Marker, host: NDArray[np.float32]) -> None:
    long = np.concatenate([host, 0.7 * host[::-1], np.roll(host, 999)])
    blocks = [long[start : start + 5_000] for start in range(0, len(long), 5_000)]
    out = list(marker.embed_stream(blocks, SAMPLE_RATE, "ab", layers="fast,deep"))
    marked = np.concatenate(out)
    assert len(marked) == len(long)
    assert marker.detect(marked, SAMPLE_RATE).message == "ab"
    called = opus_voip(gsm(marked), 8).astype(np.float32)  # in which nothing is left of the fast layer
    heard = [called[start : start + 9_000] for start in range(0, len(called), 9_000)]
    for layers in ("deep", "fast,deep"):
        answers = list(marker.detect_stream(heard, SAMPLE_RATE, layers=layers))
        assert (answers[-1].message, answers[-1].layer) == ("ab", "deep")
        assert len(answers) > 3


def test_a_stream_with_both_layers_is_told_by_the_fast_one_at_once(
    marker: ideaw.Marker, marked: NDArray[np.float32]
) -> None:
    first = next(
        marker.detect_stream([marked[start : start + 8_000] for start in range(0, 96_000, 8_000)], SAMPLE_RATE)
    )
    assert (first.message, first.layer) == ("ab", "fast")


def test_a_stream_comes_out_in_time(marker: ideaw.Marker, host: NDArray[np.float32]) -> None:
    waiting = most = 0

    def blocks() -> Any:
        nonlocal waiting, most
        for start in range(0, len(host), 1_600):
            waiting += 1_600
            yield host[start : start + 1_600]
            most = max(most, waiting)

    for piece in marker.embed_stream(blocks(), SAMPLE_RATE, "ab", layers="fast,deep", latency=4):
        waiting -= len(piece)
    assert most <= 7 * SAMPLE_RATE


def test_files_keep_everything_else(marker: ideaw.Marker, host: NDArray[np.float32], tmp_path: Path) -> None:
    source, target = tmp_path / "in.wav", tmp_path / "out.flac"
    soundfile.write(source, host, SAMPLE_RATE, subtype="PCM_16")
    marker.embed_file(source, target, "ab", layers="deep")
    assert soundfile.info(target).frames == len(host)
    assert marker.detect_file(target, layers="deep").message == "ab"
    assert ideaw.detect_file(target, keys=[KEY], layers="deep", expected=["ab"]).layer == "deep"
    array = marker.embed(soundfile.read(source, dtype="int16")[0], SAMPLE_RATE, "ab", layers="deep")
    assert np.array_equal(soundfile.read(target, dtype="int16")[0], array)


@pytest.mark.parametrize("layers", ["slow", "fast,slow", "", (), ("fast", "deep", "x")])
def test_unknown_layers_are_refused(marker: ideaw.Marker, speech: NDArray[np.float32], layers: Any) -> None:
    with pytest.raises(ideaw.IdeawError, match="fast, deep") as problem:
        marker.embed(speech, SAMPLE_RATE, "ab", layers=layers)
    assert "\n" not in str(problem.value)
    with pytest.raises(ideaw.IdeawError):
        marker.detect(speech, SAMPLE_RATE, layers=layers)


def test_layers_are_put_in_order() -> None:
    assert check_layers("deep, fast") == ("fast", "deep")
    assert check_layers(["deep", "deep"]) == ("deep",)


@pytest.mark.parametrize("expected", ["ab", b"ab", [""], [1.5], [()], ["ok", [2]]])
def test_expected_messages_that_are_none_are_refused(
    marker: ideaw.Marker, speech: NDArray[np.float32], expected: Any
) -> None:
    with pytest.raises(ideaw.MessageError):
        marker.detect(speech, SAMPLE_RATE, layers="deep", expected=expected)


@pytest.mark.parametrize("message", ["", b"", ()])
def test_an_empty_message_is_refused_in_any_layer(
    marker: ideaw.Marker, speech: NDArray[np.float32], message: Any
) -> None:
    for layers in ("deep", "fast", "fast,deep"):
        with pytest.raises(ideaw.MessageError, match="empty"):
            marker.embed(speech, SAMPLE_RATE, message, layers=layers)


def test_silence_is_refused_and_a_file_is_not_left_behind(marker: ideaw.Marker, tmp_path: Path) -> None:
    source, target = tmp_path / "in.wav", tmp_path / "out.wav"
    soundfile.write(source, np.zeros(2 * SAMPLE_RATE), SAMPLE_RATE)
    with pytest.raises(ideaw.AudioError, match="silent"):
        marker.embed_file(source, target, "ab", layers="deep")
    assert not target.exists()
    assert marker.detect_file(source, layers="deep").status == "none"
