"""Fingerprints: the same recording after edits agrees, another one, another take or a moved mark does not."""

import shutil
import subprocess
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw import AudioError, RegistryError
from ideaw.attacks.catalogue import run
from ideaw.provenance.fingerprint import Agreement, Fingerprinter, compare, fingerprint

RATE = 16_000

Samples = NDArray[np.float32]


@pytest.fixture(scope="module")
def marked(speech: Samples, strings: Samples) -> dict[str, Samples]:
    """Speech and music with marks."""
    marker = ideaw.load()
    return {
        kind: marker.embed(audio, RATE, b"\0\xa1\xb2\xc3") for kind, audio in (("speech", speech), ("music", strings))
    }


EDITS = {
    "MP3 64": lambda audio: run("mp3", audio, RATE),
    "noise 20 dB": lambda audio: run("noise", audio, RATE, snr=20.0),
    "resampled": lambda audio: soxr.resample(audio, RATE, 11_025),
    "softer": lambda audio: audio / 8,
    "polarity": lambda audio: -audio,
    "Opus 16": lambda audio: run("voip", audio, RATE),
}


@pytest.mark.parametrize("kind", ["speech", "music"])
@pytest.mark.parametrize("edit", list(EDITS))
def test_three_seconds_from_anywhere_agree_after_an_edit(marked: dict[str, Samples], kind: str, edit: str) -> None:
    changed = EDITS[edit](marked[kind])
    rate = RATE * len(changed) // len(marked[kind])
    for start in (0.0, 1.234, 3.0):
        begin = round(start * rate)
        answer = compare(fingerprint(marked[kind], RATE), fingerprint(changed[begin : begin + 3 * rate], rate))
        assert answer.agrees
        assert answer.seconds[0][0] == 0
        assert answer.seconds[0][1] == pytest.approx(3, abs=0.1)


def test_a_copy_without_the_mark_agrees(marked: dict[str, Samples], speech: Samples, strings: Samples) -> None:
    for kind, audio in (("speech", speech), ("music", strings)):
        assert compare(fingerprint(marked[kind], RATE), fingerprint(audio, RATE)).agrees


def test_another_recording_disagrees(marked: dict[str, Samples]) -> None:
    prints = {kind: fingerprint(audio, RATE) for kind, audio in marked.items()}
    for one, other in (("speech", "music"), ("music", "speech")):
        answer = compare(prints[one], prints[other])
        assert (answer.agrees, answer.seconds) == (False, [])
        assert answer.compared_seconds > 5
        assert answer.score < 0.2


def test_other_passages_of_one_recording_disagree(marked: dict[str, Samples]) -> None:
    for audio in marked.values():
        answer = compare(fingerprint(audio[:48_000], RATE), fingerprint(audio[48_000:], RATE))
        assert (answer.agrees, answer.seconds) == (False, [])


def test_a_mark_of_one_recording_on_another_disagrees(marked: dict[str, Samples]) -> None:
    """Both carry the same id, as after a transplant, and only one is the recording."""
    marker = ideaw.load()
    assert [marker.detect(audio, RATE).message for audio in marked.values()] == [b"\0\xa1\xb2\xc3"] * 2
    assert compare(fingerprint(marked["speech"], RATE), fingerprint(marked["music"], RATE)).seconds == []


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
def test_another_take_of_a_sentence_disagrees(tmp_path: Path) -> None:
    takes = []
    for voice, speed, pitch in (("en", 160, 50), ("en", 175, 50), ("en", 160, 70), ("en+f3", 160, 50)):
        path = tmp_path / "take.wav"
        words = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "-w", str(path)]
        subprocess.run([*words, "The registry keeps a fingerprint of every recording that it knows."], check=True)
        takes.append(fingerprint(*soundfile.read(path)))
    answers = [compare(one, other).seconds == [] for one in takes for other in takes if one is not other]
    assert all(answers)
    assert compare(takes[0], takes[0]).agrees


@pytest.mark.parametrize(("first", "second"), [("speech", "music"), ("music", "speech")])
def test_a_file_half_of_which_was_replaced_agrees_in_part(marked: dict[str, Samples], first: str, second: str) -> None:
    recorded = np.concatenate([marked[first], marked[first][::-1]])
    found = np.concatenate([marked[first], marked[second]])
    answer = compare(fingerprint(recorded, RATE), fingerprint(run("mp3", found, RATE), RATE))
    assert not answer.agrees
    ((start, end),) = answer.seconds
    assert start == 0
    assert end == pytest.approx(6, abs=1)


def test_what_was_cut_out_or_put_before_is_placed(marked: dict[str, Samples]) -> None:
    recorded = fingerprint(marked["music"], RATE)
    answer = compare(recorded, fingerprint(np.concatenate([marked["speech"], marked["music"]]), RATE))
    ((start, end),) = answer.seconds
    assert start == pytest.approx(6, abs=1)
    assert end == pytest.approx(12, abs=0.1)
    shorter = np.concatenate([marked["music"][:48_000], marked["music"][64_000:]])
    assert compare(recorded, fingerprint(shorter, RATE)).seconds


def test_speed_that_is_known_is_undone(marked: dict[str, Samples]) -> None:
    for speed in (0.95, 1.05):
        played = run("speed", marked["music"], RATE, factor=speed)
        assert compare(fingerprint(marked["music"], RATE), fingerprint(played, RATE / speed)).agrees


def test_tempo_that_is_known_is_undone(marked: dict[str, Samples]) -> None:
    recorded, stretched = fingerprint(marked["music"], RATE), run("tempo", marked["music"], RATE, factor=0.85)
    assert not compare(recorded, fingerprint(stretched, RATE)).agrees
    whole = Fingerprinter(RATE, tempo=0.85)
    whole.push(stretched)
    assert compare(recorded, whole.finish()).agrees
    with pytest.raises(AudioError, match="a tempo of 0 cannot be used"):
        Fingerprinter(RATE, tempo=0)


def test_silence_and_too_little_are_no_answer(marked: dict[str, Samples]) -> None:
    recorded = fingerprint(marked["speech"], RATE)
    for audio in (np.zeros(0), np.zeros(100_000), marked["music"][:2_000], marked["music"][:20_000]):
        assert compare(recorded, fingerprint(audio, RATE)) == Agreement(False, pytest.approx(0.1, abs=0.2), [], 0.0)


def test_silence_in_both_does_not_agree(marked: dict[str, Samples]) -> None:
    silence = np.zeros(64_000, np.float32)
    one, other = (fingerprint(np.concatenate([audio, silence]), RATE) for audio in marked.values())
    assert compare(one, other).seconds == []
    assert compare(one, one).agrees


def test_a_fingerprint_does_not_depend_on_how_the_audio_arrives(music: Samples) -> None:
    whole = fingerprint(music, 44_100)
    for size in (1_000, 44_100, 100_003):
        pieces = Fingerprinter(44_100)
        for start in range(0, len(music), size):
            pieces.push(music[start : start + size])
        assert pieces.finish() == whole


def test_every_type_of_samples_gives_nearly_the_same(speech: Samples) -> None:
    recorded = fingerprint(speech, RATE)
    stereo = np.stack([speech, speech], axis=1)
    for samples in (stereo, (speech * 32_767).astype(np.int16), speech.astype(np.float64)):
        assert compare(recorded, fingerprint(samples, RATE)).score > 0.99 * compare(recorded, recorded).score


@pytest.mark.slow
def test_a_long_stream_takes_a_bounded_memory_and_250_bytes_a_second(speech: Samples) -> None:
    stream = Fingerprinter(RATE)
    tracemalloc.start()
    for _ in range(50):
        stream.push(speech)
    size = len(stream.finish())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size == pytest.approx(250 * 300, rel=0.01)
    assert peak < 300 * RATE * 2  # less than the audio as 16-bit PCM


def test_an_hour_is_searched_for_three_seconds_in_bounded_memory(marked: dict[str, Samples]) -> None:
    rng = np.random.default_rng(0)
    hour = b"\1" + rng.bytes(8 * 31 * 1_800)
    middle = fingerprint(marked["music"], RATE)[1:]
    recorded = hour + middle + hour[1:]
    tracemalloc.start()
    answer = compare(recorded, fingerprint(marked["music"][20_000:68_000], RATE))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.agrees
    assert peak < 150e6


@pytest.mark.parametrize("content", [b"", b"\1123", b"\2" + bytes(80), b"AQAAC"])
def test_what_is_no_fingerprint_is_one_line(content: bytes, speech: Samples) -> None:
    good = fingerprint(speech, RATE)
    for pair in ((content, good), (good, content)):
        with pytest.raises(RegistryError, match="fingerprint"):
            compare(*pair)


def test_what_is_no_audio_is_refused() -> None:
    with pytest.raises(AudioError, match="NaN"):
        fingerprint(np.full(20_000, np.nan), RATE)
    with pytest.raises(AudioError, match="rate"):
        fingerprint(np.zeros(20_000), 0)
    with pytest.raises(AudioError, match="not audio"):
        fingerprint(np.zeros(20_000, complex), RATE)


def test_a_fingerprint_of_the_first_version_is_read(speech: Samples) -> None:
    """What was made of the packaged speech when format 1 was fixed."""
    golden = Path(__file__).parent.parent / "golden" / "registry" / "speech-1.fingerprint"
    content = golden.read_bytes()
    made = fingerprint(speech, RATE)
    assert compare(content, made).agrees
    same = np.unpackbits(np.frombuffer(content, np.uint8)) == np.unpackbits(np.frombuffer(made, np.uint8))
    assert same.mean() > 0.999  # sums round otherwise on other processors
