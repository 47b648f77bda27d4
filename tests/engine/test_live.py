"""Live marking: in time, the same however the audio is cut, as strong as promised, and nearly as readable as arrays."""

import io
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import soundfile as sf
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES, SAMPLE_RATE
from ideaw.engine.gain import SecondBudget
from ideaw.engine.live import LiveEmbedder, check_live_latency, live_delay_seconds
from ideaw.engine.mixer import EmbedSettings
from ideaw.engine.network import Network
from ideaw.errors import AudioError
from ideaw.modem.channel import KeyChannels
from ideaw.quality.masking import masking


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(threads=1)


def _embedder(
    network: Network,
    channels: KeyChannels,
    audio: NDArray[Any],
    rate: int,
    snr: float | None = None,
    step: float = 0.0,
    latency: float | None = None,
) -> LiveEmbedder:
    symbols = channels.message.fec.symbols(np.random.default_rng(3).integers(0, 2, (3, network.card.message_bits)))
    count = 1 if audio.ndim == 1 else audio.shape[1]
    settings = EmbedSettings(rate, count, snr, step, audibility=-2.0)
    return LiveEmbedder(network, channels, symbols, settings, check_live_latency(rate, latency))


def _marked(embedder: LiveEmbedder, pieces: Iterable[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([*[embedder.push(piece) for piece in pieces], embedder.finish()])


def _cut(audio: NDArray[Any], most: int) -> list[NDArray[Any]]:
    """The audio in pieces of random lengths below `most`, some of them empty."""
    places = np.cumsum(np.random.default_rng(most).integers(0, most, 4 * len(audio) // most))
    return np.split(audio, places[places < len(audio)])


def _snrs(audio: NDArray[Any], marked: NDArray[Any], rate: int) -> NDArray[np.float64]:
    """SNR in dB of every second of every channel; ∞ where nothing was added."""
    starts = np.arange(0, len(audio), rate)
    energy, added = (np.add.reduceat(np.square(x, dtype=np.float64), starts) for x in (audio, marked - audio))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(added > 0, 10 * np.log10(energy / added), np.inf)


def _on_grid(audio: NDArray[Any], step: float) -> NDArray[np.float64]:
    return np.rint(audio / step) * step if step else audio.astype(np.float64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "step", "snr", "most"),
    [(8_000, 0.0, None, 300), (16_000, 2.0**-15, 38.0, 70), (22_050, 2.0**-15, None, 3_000), (44_100, 0.0, None, 900)],
)
def test_cuts_leave_no_trace(
    network: Network,
    channels: KeyChannels,
    music: NDArray[np.float32],
    rate: int,
    step: float,
    snr: float | None,
    most: int,
) -> None:
    audio = _on_grid(soxr.resample(music, 44_100, rate)[: int(2.3 * rate)], step)
    at_once = _marked(_embedder(network, channels, audio, rate, snr, step), [audio])
    assert at_once.shape == audio.shape
    assert np.linalg.norm(at_once - audio) > 0
    in_pieces = _marked(_embedder(network, channels, audio, rate, snr, step), _cut(audio, most))
    assert np.array_equal(in_pieces, at_once)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "latency", "most_seconds"),
    [(16_000, None, 0.1), (16_000, 0.0625, 0.0625), (16_000, 0.5, 0.5)]
    + [(rate, None, 0.13) for rate in (8_000, 11_025, 22_050, 24_000, 44_100, 48_000, 96_000)],
)
@pytest.mark.parametrize("width", [1, 2])
def test_no_sample_waits_longer_than_promised(
    network: Network,
    channels: KeyChannels,
    music: NDArray[np.float32],
    rate: int,
    latency: float | None,
    most_seconds: float,
    width: int,
) -> None:
    audio = soxr.resample(music[:, :width], 44_100, rate)[:rate]
    embedder = _embedder(network, channels, audio, rate, latency=latency)
    held = longest = 0
    for piece in _cut(audio, rate // 50):
        held += len(piece) - len(embedder.push(piece))
        longest = max(longest, held)
    assert longest / rate <= embedder.latency <= most_seconds
    assert longest / rate > embedder.latency - 0.02  # what it says is not exaggerated
    assert len(embedder.finish()) == held


@pytest.mark.parametrize("rate", [16_000, 24_000])
@pytest.mark.parametrize("length", [0, 1, 100, 374, 375, 1_500, 9_999])
def test_as_much_comes_out_as_goes_in(
    network: Network, channels: KeyChannels, speech: NDArray[np.float32], rate: int, length: int
) -> None:
    audio = speech[20_000 : 20_000 + length, None].astype(np.float64)
    marked = _marked(_embedder(network, channels, audio, rate), _cut(audio, 700))
    assert marked.shape == audio.shape
    assert np.isfinite(marked).all()


def test_a_buffer_may_be_used_again(network: Network, channels: KeyChannels, speech: NDArray[np.float32]) -> None:
    audio = speech[:16_000, None].astype(np.float64)
    embedder, buffer, marked = _embedder(network, channels, audio, SAMPLE_RATE), np.empty((1_000, 1)), []
    for start in range(0, len(audio), len(buffer)):
        buffer[:] = audio[start : start + len(buffer)]
        marked.append(embedder.push(buffer))
    buffer[:] = np.nan
    expected = _marked(_embedder(network, channels, audio, SAMPLE_RATE), [audio])
    assert np.array_equal(np.concatenate([*marked, embedder.finish()]), expected)


@pytest.mark.slow
@pytest.mark.parametrize("step", [0.0, 2.0**-15, 2.0**-7])
@pytest.mark.parametrize(("rate", "snr"), [(16_000, 38.0), (44_100, 30.0)])
def test_every_second_keeps_its_snr(
    network: Network, channels: KeyChannels, music: NDArray[np.float32], rate: int, snr: float, step: float
) -> None:
    # Loud, barely there, loud, silent, quiet, full: each second is another case, and the channels differ.
    gains = np.array([[1, 0.001, 1, 0, 0.03, 3], [0.02, 1, 0, 0.3, 1e-5, 1]]).T
    audio = soxr.resample(music, 44_100, rate)[: 6 * rate]
    audio = _on_grid(audio * np.repeat(gains, rate, axis=0)[: len(audio)], step)
    marked = _marked(_embedder(network, channels, audio, rate, snr, step), _cut(audio, rate // 10))
    snrs = _snrs(audio, marked, rate)
    assert snrs.min() >= snr
    assert np.array_equal(_on_grid(marked, step), marked)
    if not step:
        assert np.median(snrs[np.isfinite(snrs)]) < snr + 3


@pytest.mark.slow
def test_what_is_heard_is_what_is_heard_of_an_array(
    marker: ideaw.Marker, speech: NDArray[np.float32], strings: NDArray[np.float32]
) -> None:
    for host in (speech, strings):
        live = np.concatenate(list(marker.embed_stream([host], SAMPLE_RATE, "hey")))
        whole = marker.embed(host, SAMPLE_RATE, "hey", layers="fast")
        # The first second is 3 dB stronger on purpose, since it may be all there is.
        ratios = [
            [masking(host[begin:], marked[begin:]).ratio for marked in (live, whole)] for begin in (0, SAMPLE_RATE)
        ]
        assert ratios[0][0] < ratios[0][1] + 3
        assert ratios[1][0] == pytest.approx(ratios[1][1], abs=2)


@pytest.mark.slow
def test_digital_silence_stays_and_sound_after_it_is_marked_at_once(
    marker: ideaw.Marker, speech: NDArray[np.float32]
) -> None:
    host = np.concatenate([np.zeros(SAMPLE_RATE, np.float32), speech[:SAMPLE_RATE], np.zeros(5_000, np.float32)])
    stream = marker.embed_stream([host], SAMPLE_RATE, "hey")
    marked = np.concatenate(list(stream))
    assert not marked[host == 0].any()
    heard = np.abs(host).reshape(-1, HOP_SAMPLES).max(1) > 1e-3
    changed = (marked != host).reshape(-1, HOP_SAMPLES).any(1)
    assert changed[heard].mean() > 0.9
    assert stream.marked_seconds == pytest.approx(changed.sum() / FRAMES_PER_SECOND, abs=0.02)


@pytest.mark.slow
def test_a_live_mark_is_nearly_as_readable_as_that_of_an_array(
    marker: ideaw.Marker, speech: NDArray[np.float32], strings: NDArray[np.float32]
) -> None:
    shares = []
    for host in (speech, strings):  # short ones, in which the beginning counts most
        whole = marker.embed(host, SAMPLE_RATE, "ab12", layers="fast")
        live = np.concatenate(list(marker.embed_stream([host], SAMPLE_RATE, "ab12")))
        level = np.linalg.norm(whole - host) / np.linalg.norm(live - host)
        scores = []
        for marked in (host + (live - host) * level, whole):
            file = io.BytesIO()
            sf.write(file, np.clip(marked, -1, 1), SAMPLE_RATE, format="MP3")
            file.seek(0)
            found = marker.detect(sf.read(file)[0], SAMPLE_RATE)
            assert found.message == "ab12"
            scores.append(np.mean([segment.score for segment in found.segments]))
        shares.append(scores[0] / scores[1])
    # An array's gain looks half a second ahead (E72), which is worth some per cent to these short samples.
    assert np.mean(shares) > 0.85


@pytest.mark.slow
def test_a_stream_goes_on_for_ever_in_the_same_memory(
    network: Network, channels: KeyChannels, speech: NDArray[np.float32]
) -> None:
    embedder = _embedder(network, channels, speech, 24_000)
    held = []
    for _ in range(4):
        for piece in np.array_split(speech, 40):
            embedder.push(piece)
        gain = embedder._gain
        held.append([len(embedder._audio._array), len(embedder._audio_16k._array), gain._rest.size, gain._frames.size])
    assert held[-1] == held[1]


@pytest.mark.parametrize("latency", [0.06, -1, 0, float("nan"), float("inf"), "x", True])
@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_a_latency_that_cannot_be_kept_is_refused(latency: Any, rate: int) -> None:
    with pytest.raises(AudioError, match=r"latency .* give 0\.0\d+ s or more"):
        check_live_latency(rate, latency)
    assert check_live_latency(rate, live_delay_seconds(rate, 1)) < 0.08


def test_an_odd_rate_takes_seconds() -> None:
    assert check_live_latency(44_099, None) == 3
    with pytest.raises(AudioError, match="give 3 s or more"):
        check_live_latency(44_099, 0.13)


def test_a_budget_begins_anew_with_every_second_and_falls_without_a_step() -> None:
    rng = np.random.default_rng(0)
    audio, residual = rng.standard_normal((2, 4_000, 2)) * np.array([[[1, 1]], [[0.01, 1]]])
    budget = SecondBudget(1_000, 2, 20, 0.0)
    fitted = np.concatenate([budget.fit(*pair) for pair in zip(_cut(residual, 300), _cut(audio, 300), strict=True)])
    assert np.array_equal(fitted[:, 0], residual[:, 0])  # 20 dB to spare
    snrs = _snrs(audio, audio + fitted, 1_000)
    assert snrs.min() >= 20
    assert snrs[:, 1].max() < 22
