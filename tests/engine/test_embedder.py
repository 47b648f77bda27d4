"""Embedding in blocks: however audio is cut, the mark is the same; it is as strong as promised, and comes in time."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from ideaw.audio.blocks import network_length, resample
from ideaw.audio.grid import EDGE_SAMPLES, FRAMES_PER_SECOND, HOP_SAMPLES, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.audio.samples import as_float, quantisation_step, restore
from ideaw.audio.spectrum import istft, level, stft
from ideaw.engine.embedder import Embedder, EmbedSettings
from ideaw.engine.features import ChunkFeatures
from ideaw.engine.network import Network, split_hops
from ideaw.engine.segments import extract_segments
from ideaw.errors import AudioError
from ideaw.modem.channel import KeyChannels

WIDTHS = [0.0, 2.0**-15, 2.0**-7]
"""Steps of floats, 16-bit and 8-bit samples."""


def _payloads(network: Network, seconds: int = 6) -> NDArray[np.integer]:
    """(seconds, message_bits) zeros and ones."""
    return np.random.default_rng(3).integers(0, 2, (seconds, network.card.message_bits))


def _symbols(channels: KeyChannels, payloads: NDArray[np.integer]) -> NDArray[np.float32]:
    """(seconds, message_bits) as segments carry them: (seconds, slots)."""
    return channels.message.fec.symbols(payloads) * channels.scrambler(channels.locating_code)


def _embedder(
    network: Network,
    channels: KeyChannels,
    audio: NDArray[Any],
    rate: int,
    snr: float = 38.0,
    step: float = 0.0,
    block: int | None = None,
) -> Embedder:
    count = 1 if audio.ndim == 1 else audio.shape[1]
    return Embedder(
        network, channels, _symbols(channels, _payloads(network)), EmbedSettings(rate, count, snr, step, block)
    )


def _marked(embedder: Embedder, pieces: Iterable[NDArray[Any]]) -> NDArray[Any]:
    marked = [embedder.push(piece) for piece in pieces]
    return np.concatenate([*marked, embedder.finish()])


def _residual(network: Network, channels: KeyChannels, audio: NDArray[Any], snr: float) -> NDArray[np.float64]:
    """What is added to (n,) at 16 kHz."""
    floats = audio.astype(np.float64)
    return np.asarray(_marked(_embedder(network, channels, floats, SAMPLE_RATE, snr), [floats]) - floats)


def _cut(audio: NDArray[Any], most: int, seed: int) -> list[NDArray[Any]]:
    """The audio in pieces of random lengths below `most`, some of them empty."""
    rng = np.random.default_rng(seed)
    places = np.cumsum(rng.integers(0, most, 4 * len(audio) // most))
    return np.split(audio, places[places < len(audio)])


def _snrs(audio: NDArray[Any], marked: NDArray[Any], rate: int) -> NDArray[np.float64]:
    """SNR in dB of every second of every channel, the last of which may be shorter; ∞ where nothing was added."""
    starts = np.arange(0, len(audio), rate)
    energy, added = (np.add.reduceat(np.square(x, dtype=np.float64), starts) for x in (audio, marked - audio))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(added > 0, 10 * np.log10(energy / added), np.inf)


def _on_grid(audio: NDArray[Any], step: float) -> NDArray[np.float64]:
    return np.rint(audio / step) * step if step else audio.astype(np.float64)


# However the audio arrives


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "step", "most"),
    [(8_000, 0.0, 3_000), (11_025, 2.0**-15, 20_000), (16_000, 2.0**-7, 70), (44_100, 2.0**-15, 90_000)],
)
def test_cuts_leave_no_trace(
    network: Network, channels: KeyChannels, music: NDArray[np.float32], rate: int, step: float, most: int
) -> None:
    audio = _on_grid(soxr.resample(music, 44_100, rate)[: int(4.4 * rate)], step)
    at_once = _marked(_embedder(network, channels, audio, rate, step=step, block=2), [audio])
    assert at_once.shape == audio.shape
    in_pieces = _marked(_embedder(network, channels, audio, rate, step=step, block=2), _cut(audio, most, seed=rate))
    assert np.array_equal(in_pieces, at_once)


def test_a_buffer_may_be_used_again(network: Network, channels: KeyChannels, speech: NDArray[np.float32]) -> None:
    audio = speech[: 2 * SEGMENT_SAMPLES, None].astype(np.float64)
    embedder, buffer, marked = _embedder(network, channels, audio, SAMPLE_RATE), np.empty((1_000, 1)), []
    for start in range(0, len(audio), len(buffer)):
        buffer[:] = audio[start : start + len(buffer)]
        marked.append(embedder.push(buffer))
    buffer[:] = np.nan
    whole_audio = _marked(_embedder(network, channels, audio, SAMPLE_RATE), [audio])
    assert np.array_equal(np.concatenate([*marked, embedder.finish()]), whole_audio)


@pytest.mark.slow
@pytest.mark.parametrize("length", [6 * SEGMENT_SAMPLES, 5 * SEGMENT_SAMPLES + 7_777])
def test_the_networks_blocks_leave_no_trace(
    network: Network, channels: KeyChannels, speech: NDArray[np.float32], length: int
) -> None:
    audio = speech[:length, None].astype(np.float64)
    at_once = _marked(_embedder(network, channels, audio, SAMPLE_RATE), [audio]) - audio
    for block in (1, 2):
        in_blocks = _marked(_embedder(network, channels, audio, SAMPLE_RATE, block=block), [audio]) - audio
        assert np.abs(at_once - in_blocks).max() < 1e-4 * np.abs(at_once).max()


@pytest.mark.slow
def test_any_number_of_threads_marks_the_same(
    network: Network, channels: KeyChannels, music: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    audio = soxr.resample(music, 44_100, SAMPLE_RATE)[: 5 * SEGMENT_SAMPLES + 777].astype(np.float64)
    marks = {}
    for threads in (1, 2, 3, 4):
        monkeypatch.setattr(network, "workers", threads)
        marks[threads] = _marked(_embedder(network, channels, audio, SAMPLE_RATE, block=4), [audio]) - audio
        assert len(split_hops(0, 4 * FRAMES_PER_SECOND, 4 * FRAMES_PER_SECOND, network.workers)) == threads
    alone = marks.pop(1)
    for mark in marks.values():
        assert np.abs(mark - alone).max() < 1e-4 * np.abs(alone).max()


@pytest.mark.parametrize("rate", [8_000, 16_000, 37_800, 44_100, 96_000])
def test_the_whole_at_once_gives_the_same(
    network: Network, channels: KeyChannels, music: NDArray[np.float32], rate: int
) -> None:
    # The definition, without blocks: one pass over everything, a gain through limits and borders, and back.
    audio = soxr.resample(music[:, :1], 44_100, rate).astype(np.float64)
    narrow = resample(audio, rate, SAMPLE_RATE, network_length(len(audio), rate))[: 6 * SEGMENT_SAMPLES, 0]
    symbols = _symbols(channels, _payloads(network))
    streams = (
        channels.message.carriers.stream(symbols).reshape(1, 6 * FRAMES_PER_SECOND, -1),
        np.tile(channels.code_stream, (6, 1))[None],
    )
    raw = istft(network.mark(stft(narrow / level(narrow))[None], *streams)[0])[EDGE_SAMPLES:-EDGE_SAMPLES] * level(
        narrow
    )
    norms = (np.linalg.norm(x.reshape(6, SEGMENT_SAMPLES), axis=1) for x in (narrow, raw))
    limits = np.divide(*norms) * 10 ** (-38 / 20)
    gains = np.empty(11)
    gains[::2], gains[1::2] = limits, np.minimum(limits[1:], limits[:-1])
    fitted = raw * np.interp(np.arange(6 * SEGMENT_SAMPLES) + 0.5, SEGMENT_SAMPLES * np.arange(1, 12) / 2, gains)
    expected = resample(fitted[:, None], SAMPLE_RATE, rate, len(audio))
    added = _marked(_embedder(network, channels, audio, rate, block=2), _cut(audio, rate, seed=1)) - audio
    assert np.vdot(added, expected) > 0.99999 * np.linalg.norm(added) * np.linalg.norm(expected)
    assert abs(np.linalg.norm(added) / np.linalg.norm(expected) - 1) < 1e-3


@pytest.mark.parametrize("rate", [8_000, 44_100])
@pytest.mark.parametrize("extra", [-1, 0, 1, 0.3, 0.6])
def test_as_much_comes_out_as_goes_in(
    network: Network, channels: KeyChannels, music: NDArray[np.float32], rate: int, extra: float
) -> None:
    length = rate + (int(extra * rate) if 0 < extra < 1 else int(extra))
    audio = soxr.resample(music, 44_100, rate)[:length].astype(np.float64)
    marked = _marked(_embedder(network, channels, audio, rate), _cut(audio, 5_000, seed=2))
    assert marked.shape == audio.shape
    assert np.isfinite(marked).all()
    assert _snrs(audio, marked, rate).min() >= 38


@pytest.mark.parametrize("length", [0, 1, HOP_SAMPLES, HOP_SAMPLES + 1, SEGMENT_SAMPLES // 2])
def test_less_than_a_second_works_too(
    network: Network, channels: KeyChannels, strings: NDArray[np.float32], length: int
) -> None:
    audio = strings[:length, None].astype(np.float64)
    marked = _marked(_embedder(network, channels, audio, SAMPLE_RATE), [audio])
    assert marked.shape == audio.shape
    assert np.isfinite(marked).all()
    assert _snrs(audio, marked, SAMPLE_RATE).min(initial=np.inf) >= 38


# As strong as promised


@pytest.mark.slow
@pytest.mark.parametrize("step", WIDTHS)
@pytest.mark.parametrize(("rate", "snr"), [(8_000, 20.0), (16_000, 38.0), (44_100, 30.0)])
def test_every_second_keeps_its_snr(
    network: Network, channels: KeyChannels, music: NDArray[np.float32], rate: int, snr: float, step: float
) -> None:
    # Loud, barely there, loud, silent, quiet, full: each second is another case, and the channels differ.
    gains = np.array([[1, 0.001, 1, 0, 0.03, 3], [0.02, 1, 0, 0.3, 1e-5, 1]]).T
    audio = soxr.resample(music, 44_100, rate)[: 6 * rate]
    audio = _on_grid(audio * np.repeat(gains, rate, axis=0)[: len(audio)], step)
    embedder = _embedder(network, channels, audio, rate, snr, step, block=2)
    marked = _marked(embedder, _cut(audio, rate, seed=3))
    snrs = _snrs(audio, marked, rate)
    assert snrs.min() >= snr
    assert not (marked - audio)[3 * rate : 4 * rate, 0].any()
    assert np.array_equal(_on_grid(marked, step), marked)
    if not step:
        assert snrs[0].max() < snr + 6
        assert np.abs(_snrs(audio, marked.astype(np.float32), rate)).min() >= snr


def test_loud_audio_is_marked_as_strongly_as_allowed(
    network: Network, channels: KeyChannels, speech: NDArray[np.float32]
) -> None:
    for snr in (15.0, 38.0):
        snrs = _snrs(speech, speech + _residual(network, channels, speech, snr), SEGMENT_SAMPLES)
        assert snrs.min() >= snr
        assert snrs.max() < snr + 10


def test_nothing_jumps_at_the_borders_of_seconds(
    network: Network, channels: KeyChannels, strings: NDArray[np.float32]
) -> None:
    # The third second is far quieter than those around it, and more so for the mark, which may not exceed it.
    gain = np.interp(np.arange(len(strings)) / SEGMENT_SAMPLES, [1.9, 2.1, 2.9, 3.1], [1, 0.05, 0.05, 1])
    steps = np.abs(np.diff(_residual(network, channels, (strings * gain).astype(np.float32), 20.0)))
    for border in range(1, 6):
        near = steps[border * SEGMENT_SAMPLES - 200 : border * SEGMENT_SAMPLES + 200]
        assert near[199] <= 1.05 * np.delete(near, 199).max()


# What it says


@pytest.mark.slow
def test_seconds_carry_one_payload_after_another_again_and_again(
    network: Network, channels: KeyChannels, strings: NDArray[np.float32]
) -> None:
    payloads = _payloads(network, 4)
    settings = EmbedSettings(SAMPLE_RATE, 1, network.card.snr, 0.0, block_seconds=2)
    marked = _marked(Embedder(network, channels, _symbols(channels, payloads), settings), [strings[:, None]])
    # Windows and level reach over the borders of seconds, and so does what the network sees.
    features = ChunkFeatures(network, marked)
    for channel, stream, scrambler, written in (
        (
            channels.message,
            features.message((0, features.hops)),
            channels.scrambler(channels.locating_code),
            payloads[np.arange(6) % 4],
        ),
        (channels.code, features.code, 1, np.tile(channels.locating_code, (6, 1))),
    ):
        llrs = channel.carriers.slot_llrs(stream.reshape(6, FRAMES_PER_SECOND, -1)) * scrambler
        assert ((channel.fec.decode_word(llrs) > 0) == (written > 0)).mean() > 0.98


def test_seconds_can_be_read_as_segments(network: Network, channels: KeyChannels, speech: NDArray[np.float32]) -> None:
    marked = speech + _residual(network, channels, speech, network.card.snr)
    read, read_code = extract_segments(network, channels, marked.reshape(6, SEGMENT_SAMPLES))
    spoken = [0, 2, 3, 4, 5]  # the second second is a pause at −63 dBFS, which needs the others to be read
    assert ((read > 0) == (_payloads(network) > 0))[spoken].mean() > 0.95
    assert ((read_code > 0) == (channels.locating_code > 0))[spoken].mean() > 0.95


def test_silent_seconds_carry_nothing_and_spoil_nothing(
    network: Network, channels: KeyChannels, strings: NDArray[np.float32]
) -> None:
    audio = strings.copy()
    audio[2 * SEGMENT_SAMPLES : 4 * SEGMENT_SAMPLES] = 0
    payloads = _payloads(network)
    residual = _residual(network, channels, audio, network.card.snr)
    assert not residual[2 * SEGMENT_SAMPLES : 4 * SEGMENT_SAMPLES].any()
    features = ChunkFeatures(network, (audio + residual).astype(np.float32)[:, None])
    stream = features.message((0, features.hops)).reshape(6, FRAMES_PER_SECOND, -1)
    llrs = channels.message.carriers.slot_llrs(stream) * channels.scrambler(channels.locating_code)
    loud = [0, 1, 4, 5]
    assert ((channels.message.fec.decode_word(llrs[loud]) > 0) == (payloads[loud] > 0)).mean() > 0.95


# Channels


def test_channels_are_marked_each_on_its_own_and_like_ones_once(
    network: Network,
    channels: KeyChannels,
    speech: NDArray[np.float32],
    strings: NDArray[np.float32],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = speech[-2 * SEGMENT_SAMPLES :], strings[: 2 * SEGMENT_SAMPLES]
    audio = np.stack([one, np.zeros_like(one), one, other], 1)
    alone = [
        _marked(_embedder(network, channels, audio[:, [channel]], SAMPLE_RATE), [audio[:, [channel]]])[:, 0]
        for channel in range(4)
    ]
    passes, mark = [], network.mark
    monkeypatch.setattr(network, "mark", lambda *given: passes.append(1) or mark(*given))
    marked = _marked(_embedder(network, channels, audio, SAMPLE_RATE), [audio])
    assert len(passes) == 3 * len(split_hops(0, 2 * FRAMES_PER_SECOND, 2 * FRAMES_PER_SECOND, network.workers))
    assert np.array_equal(marked, np.stack(alone, 1))
    assert not marked[:, 1].any()


# In time, and in constant memory


@pytest.mark.parametrize(("rate", "block"), [(8_000, 1), (16_000, 1), (16_000, 2), (44_100, 1), (192_000, 2)])
def test_no_sample_waits_longer_than_said(
    network: Network, channels: KeyChannels, strings: NDArray[np.float32], rate: int, block: int
) -> None:
    audio = soxr.resample(strings, SAMPLE_RATE, rate)[:, None]
    embedder = _embedder(network, channels, audio, rate, block=block)
    given, waits, piece = 0, [], rate // 100
    for start in range(0, len(audio), piece):
        waits.append((start - given) / rate)  # the oldest sample that is still inside, just before the next piece
        given += len(embedder.push(audio[start : start + piece]))
    assert block + 1 < max(waits) <= embedder.latency < block + 2


THIRTY_MINUTES = """
from pathlib import Path
import numpy as np
from ideaw.engine.embedder import Embedder, EmbedSettings
from ideaw.engine.network import Network
from ideaw.keys import PUBLIC
from ideaw.models import find_model

network = Network(find_model("46+10"))
network.mark = lambda host, message, code: 0.01 * host  # what is measured is everything around the network
settings = EmbedSettings(22_050, 1, 38.0, 2.0**-15)
embedder = Embedder(network, network.channels(PUBLIC), np.ones((1, 552), np.float32), settings)
audio = np.random.default_rng(0).uniform(-0.5, 0.5, (10 * 22_050, 1))

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024

length = 0
for seconds in range(0, 30 * 60, 10):
    length += len(embedder.push(audio))
    if seconds == 300:
        early = peak()
assert length + len(embedder.finish()) == 30 * 60 * 22_050
print(early, peak())
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of a single program")
def test_half_an_hour_takes_no_more_memory_than_five_minutes() -> None:
    run = subprocess.run([sys.executable, "-c", THIRTY_MINUTES], capture_output=True, text=True, check=True)
    after_five_minutes, in_the_end = map(int, run.stdout.split())
    assert in_the_end <= after_five_minutes + 10  # MiB; the audio alone would be 300
    assert in_the_end < 120


# Types


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "float16", "float32", "float64"])
def test_what_comes_out_is_of_the_type_that_went_in(
    network: Network, channels: KeyChannels, speech: NDArray[np.float32], dtype: str
) -> None:
    host = 0.5 * speech[-2 * SEGMENT_SAMPLES - 777 :].astype(np.float64) / np.abs(speech).max()
    audio = restore(host, host, np.dtype(dtype))
    step = quantisation_step(audio.dtype)
    marked = _marked(_embedder(network, channels, audio, SAMPLE_RATE, step=step), _cut(audio, 9_000, seed=5))
    assert marked.dtype == audio.dtype
    assert marked.shape == audio.shape
    floats = as_float(audio)
    expected = _marked(_embedder(network, channels, floats, SAMPLE_RATE, step=step), [floats])
    assert np.array_equal(marked, restore(expected, floats, audio.dtype)[:, 0])


# What only the end can tell


def _check(
    network: Network, channels: KeyChannels, audio: NDArray[Any], rate: int, snr: float = 38.0, step: float = 0.0
) -> None:
    embedder = _embedder(network, channels, audio, rate, snr, step)
    _marked(embedder, [audio])
    embedder.check()


@pytest.mark.parametrize("gain", [0.0, 1e-6])
def test_silence_is_refused(network: Network, channels: KeyChannels, music: NDArray[np.float32], gain: float) -> None:
    with pytest.raises(AudioError, match="silent"):
        _check(network, channels, gain * music[: 2 * 44_100].astype(np.float64), 44_100)


def test_audio_with_nothing_below_8_khz_is_refused(network: Network, channels: KeyChannels) -> None:
    whistle = (np.sin(2 * np.pi * 12_000 * np.arange(88_200) / 44_100) * np.hanning(88_200))[:, None]
    with pytest.raises(AudioError, match="below 8000 Hz"):
        _check(network, channels, whistle, 44_100)


@pytest.mark.parametrize("step", [0.0, 2.0**-15])
def test_speech_in_floats_and_16_bits_is_fit_to_be_marked(
    network: Network, channels: KeyChannels, speech: NDArray[np.float32], step: float
) -> None:
    _check(network, channels, _on_grid(speech[-2 * SEGMENT_SAMPLES :, None], step), SAMPLE_RATE, step=step)


def test_a_mark_that_would_round_away_is_refused(
    network: Network, channels: KeyChannels, speech: NDArray[np.float32]
) -> None:
    audio = _on_grid(0.1 * speech[-2 * SEGMENT_SAMPLES :, None], 2.0**-7)
    with pytest.raises(AudioError, match="rounds away"):
        _check(network, channels, audio, SAMPLE_RATE, step=2.0**-7)


@pytest.mark.slow
def test_a_mark_that_would_be_clipped_away_is_refused(network: Network, channels: KeyChannels) -> None:
    noise = np.random.default_rng(0).choice([-1.0, 1.0], 2 * SEGMENT_SAMPLES)[:, None]
    with pytest.raises(AudioError, match="clipped away"):
        _check(network, channels, noise, SAMPLE_RATE)
