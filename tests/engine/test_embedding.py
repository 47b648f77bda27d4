"""Embedding in blocks: however audio is cut, the mark is the same; it is as strong as promised, and comes in time."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from ideaw.audio.grid import EDGE_SAMPLES, FRAMES_PER_SECOND, HOP_SAMPLES, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.audio.level import level
from ideaw.audio.resample import from_network, to_network
from ideaw.audio.stft import istft, stft
from ideaw.engine.embedding import BLOCK, Embedding
from ideaw.engine.network import Network
from ideaw.engine.search import Heard
from ideaw.engine.segments import extract_segments

WIDTHS = [0.0, 2.0**-15, 2.0**-7]
"""Steps of floats, 16-bit and 8-bit samples."""


def _bits(network: Network, seconds: int = 6) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Zeros and ones: (seconds, message_bits) and (code_bits,)."""
    rng = np.random.default_rng(3)
    return rng.integers(0, 2, (seconds, network.card.message_bits)), rng.integers(0, 2, network.card.code_bits)


def _embedding(
    network: Network, audio: NDArray, rate: int, snr: float = 38.0, step: float = 0.0, block: int = BLOCK
) -> Embedding:
    return Embedding(network, *_bits(network), rate, audio.shape[1], snr, step, block)


def _marked(embedding: Embedding, pieces: Iterable[NDArray]) -> NDArray[np.float64]:
    marked = [embedding.push(piece) for piece in pieces]
    return np.concatenate([*marked, embedding.finish()])


def _residual(network: Network, audio: NDArray, snr: float) -> NDArray[np.float64]:
    """What is added to (n,) at 16 kHz."""
    return _marked(_embedding(network, audio[:, None], SAMPLE_RATE, snr), [audio[:, None]])[:, 0] - audio


def _cut(audio: NDArray, most: int, seed: int) -> list[NDArray]:
    """The audio in pieces of random lengths below `most`, some of them empty."""
    rng = np.random.default_rng(seed)
    places = np.cumsum(rng.integers(0, most, 4 * len(audio) // most))
    return np.split(audio, places[places < len(audio)])


def _snrs(audio: NDArray, marked: NDArray, rate: int) -> NDArray[np.float64]:
    """SNR in dB of every second of every channel, the last of which may be shorter; ∞ where nothing was added."""
    starts = np.arange(0, len(audio), rate)
    energy, added = (np.add.reduceat(np.square(x, dtype=np.float64), starts) for x in (audio, marked - audio))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(added > 0, 10 * np.log10(energy / added), np.inf)


def _on_grid(audio: NDArray, step: float) -> NDArray[np.float64]:
    return np.rint(audio / step) * step if step else audio.astype(np.float64)


# However the audio arrives


@pytest.mark.parametrize(
    ("rate", "step", "most"),
    [(8_000, 0.0, 3_000), (11_025, 2.0**-15, 20_000), (16_000, 2.0**-7, 70), (44_100, 2.0**-15, 90_000)],
)
def test_cuts_leave_no_trace(network: Network, music: NDArray[np.float32], rate: int, step: float, most: int) -> None:
    audio = _on_grid(soxr.resample(music, 44_100, rate)[: int(4.4 * rate)], step)
    at_once = _marked(_embedding(network, audio, rate, step=step, block=2), [audio])
    assert at_once.shape == audio.shape
    in_pieces = _marked(_embedding(network, audio, rate, step=step, block=2), _cut(audio, most, seed=rate))
    assert np.array_equal(in_pieces, at_once)


def test_a_buffer_may_be_used_again(network: Network, speech: NDArray[np.float32]) -> None:
    audio = speech[: 2 * SEGMENT_SAMPLES, None].astype(np.float64)
    embedding, buffer, marked = _embedding(network, audio, SAMPLE_RATE), np.empty((1_000, 1)), []
    for start in range(0, len(audio), len(buffer)):
        buffer[:] = audio[start : start + len(buffer)]
        marked.append(embedding.push(buffer))
    buffer[:] = np.nan
    whole_audio = _marked(_embedding(network, audio, SAMPLE_RATE), [audio])
    assert np.array_equal(np.concatenate([*marked, embedding.finish()]), whole_audio)


@pytest.mark.parametrize("length", [6 * SEGMENT_SAMPLES, 5 * SEGMENT_SAMPLES + 7_777])
def test_the_networks_blocks_leave_no_trace(network: Network, speech: NDArray[np.float32], length: int) -> None:
    audio = speech[:length, None]
    at_once = _marked(_embedding(network, audio, SAMPLE_RATE), [audio]) - audio
    for block in (1, 2):
        in_blocks = _marked(_embedding(network, audio, SAMPLE_RATE, block=block), [audio]) - audio
        assert np.abs(at_once - in_blocks).max() < 1e-4 * np.abs(at_once).max()


def test_any_number_of_threads_marks_the_same(
    network: Network, music: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    audio = soxr.resample(music, 44_100, SAMPLE_RATE)[: 5 * SEGMENT_SAMPLES + 777]
    marks = {}
    for threads in (1, 2, 3, 4):
        monkeypatch.setattr(network, "at_once", threads)
        marks[threads] = _marked(_embedding(network, audio, SAMPLE_RATE, block=4), [audio]) - audio
        assert len(network.parts(0, 4 * FRAMES_PER_SECOND, 4 * FRAMES_PER_SECOND)) == threads
    alone = marks.pop(1)
    for mark in marks.values():
        assert np.abs(mark - alone).max() < 1e-4 * np.abs(alone).max()


@pytest.mark.parametrize("rate", [8_000, 16_000, 37_800, 44_100, 96_000])
def test_the_whole_at_once_gives_the_same(network: Network, music: NDArray[np.float32], rate: int) -> None:
    # The definition, without blocks: one pass over everything, a gain through limits and borders, and back.
    audio = soxr.resample(music[:, :1], 44_100, rate)
    narrow = to_network(audio, rate)[0][: 6 * SEGMENT_SAMPLES]
    messages, code = _bits(network)
    streams = (
        kind.carriers.stream(kind.values(bits)).reshape(1, 6 * FRAMES_PER_SECOND, -1)
        for kind, bits in ((network.message, messages), (network.code, np.tile(code, (6, 1))))
    )
    raw = istft(network.mark(stft(narrow / level(narrow))[None], *streams)[0])[EDGE_SAMPLES:-EDGE_SAMPLES] * level(
        narrow
    )
    norms = (np.linalg.norm(x.reshape(6, SEGMENT_SAMPLES), axis=1) for x in (narrow, raw))
    limits = np.divide(*norms) * 10 ** (-38 / 20)
    gains = np.empty(11)
    gains[::2], gains[1::2] = limits, np.minimum(limits[1:], limits[:-1])
    fitted = raw * np.interp(np.arange(6 * SEGMENT_SAMPLES) + 0.5, SEGMENT_SAMPLES * np.arange(1, 12) / 2, gains)
    expected = from_network(fitted[None], rate, len(audio))
    added = _marked(_embedding(network, audio, rate, block=2), _cut(audio, rate, seed=1)) - audio
    assert np.vdot(added, expected) > 0.99999 * np.linalg.norm(added) * np.linalg.norm(expected)
    assert abs(np.linalg.norm(added) / np.linalg.norm(expected) - 1) < 1e-3


@pytest.mark.parametrize("rate", [8_000, 44_100])
@pytest.mark.parametrize("extra", [-1, 0, 1, 0.3, 0.6])
def test_as_much_comes_out_as_goes_in(network: Network, music: NDArray[np.float32], rate: int, extra: float) -> None:
    length = rate + (int(extra * rate) if 0 < extra < 1 else int(extra))
    audio = soxr.resample(music, 44_100, rate)[:length]
    marked = _marked(_embedding(network, audio, rate), _cut(audio, 5_000, seed=2))
    assert marked.shape == audio.shape
    assert np.isfinite(marked).all()
    assert _snrs(audio, marked, rate).min() >= 38


@pytest.mark.parametrize("length", [0, 1, HOP_SAMPLES, HOP_SAMPLES + 1, SEGMENT_SAMPLES // 2])
def test_less_than_a_second_works_too(network: Network, strings: NDArray[np.float32], length: int) -> None:
    audio = strings[:length, None]
    marked = _marked(_embedding(network, audio, SAMPLE_RATE), [audio])
    assert marked.shape == audio.shape
    assert np.isfinite(marked).all()
    assert _snrs(audio, marked, SAMPLE_RATE).min(initial=np.inf) >= 38


# As strong as promised


@pytest.mark.parametrize("step", WIDTHS)
@pytest.mark.parametrize(("rate", "snr"), [(8_000, 20.0), (16_000, 38.0), (44_100, 30.0)])
def test_every_second_keeps_its_snr(
    network: Network, music: NDArray[np.float32], rate: int, snr: float, step: float
) -> None:
    # Loud, barely there, loud, silent, quiet, full: each second is another case, and the channels differ.
    gains = np.array([[1, 0.001, 1, 0, 0.03, 3], [0.02, 1, 0, 0.3, 1e-5, 1]]).T
    audio = soxr.resample(music, 44_100, rate)[: 6 * rate]
    audio = _on_grid(audio * np.repeat(gains, rate, axis=0)[: len(audio)], step)
    embedding = _embedding(network, audio, rate, snr, step, block=2)
    marked = _marked(embedding, _cut(audio, rate, seed=3))
    snrs = _snrs(audio, marked, rate)
    assert snrs.min() >= snr
    assert not (marked - audio)[3 * rate : 4 * rate, 0].any()
    assert np.array_equal(_on_grid(marked, step), marked)
    if not step:
        assert snrs[0].max() < snr + 6
        assert np.abs(_snrs(audio, marked.astype(np.float32), rate)).min() >= snr


def test_loud_audio_is_marked_as_strongly_as_allowed(network: Network, speech: NDArray[np.float32]) -> None:
    for snr in (15.0, 38.0):
        snrs = _snrs(speech, speech + _residual(network, speech, snr), SEGMENT_SAMPLES)
        assert snrs.min() >= snr
        assert snrs.max() < snr + 10


def test_nothing_jumps_at_the_borders_of_seconds(network: Network, strings: NDArray[np.float32]) -> None:
    # The third second is far quieter than those around it, and more so for the mark, which may not exceed it.
    gain = np.interp(np.arange(len(strings)) / SEGMENT_SAMPLES, [1.9, 2.1, 2.9, 3.1], [1, 0.05, 0.05, 1])
    steps = np.abs(np.diff(_residual(network, (strings * gain).astype(np.float32), 20.0)))
    for border in range(1, 6):
        near = steps[border * SEGMENT_SAMPLES - 200 : border * SEGMENT_SAMPLES + 200]
        assert near[199] <= 1.05 * np.delete(near, 199).max()


# What it says


def test_seconds_carry_one_frame_after_another_again_and_again(network: Network, strings: NDArray[np.float32]) -> None:
    messages, code = _bits(network, 4)
    audio = strings[:, None]
    marked = _marked(Embedding(network, messages, code, SAMPLE_RATE, 1, network.card.snr, 0.0, block=2), [audio])[:, 0]
    # Windows and level reach over the borders of seconds, and so does what the network sees.
    heard = Heard(network, marked.astype(np.float32)[:, None])
    for slots, stream, written in (
        (network.message, heard.message((0, heard.hops)), messages[np.arange(6) % 4]),
        (network.code, heard.code, np.tile(code, (6, 1))),
    ):
        read = slots.code.decode_word(slots.carriers.slot_llrs(stream.reshape(6, FRAMES_PER_SECOND, -1)))
        assert ((read > 0) == (written > 0)).mean() > 0.98


def test_seconds_can_be_read_as_segments(network: Network, speech: NDArray[np.float32]) -> None:
    messages, code = _bits(network)
    marked = speech + _residual(network, speech, network.card.snr)
    read, read_code = extract_segments(network, marked.reshape(6, SEGMENT_SAMPLES))
    spoken = [0, 2, 3, 4, 5]  # the second second is a pause at −63 dBFS, which needs the others to be read
    assert ((read > 0) == (messages > 0))[spoken].mean() > 0.95
    assert ((read_code > 0) == (code > 0))[spoken].mean() > 0.95


def test_silent_seconds_carry_nothing_and_spoil_nothing(network: Network, strings: NDArray[np.float32]) -> None:
    audio = strings.copy()
    audio[2 * SEGMENT_SAMPLES : 4 * SEGMENT_SAMPLES] = 0
    messages, _ = _bits(network)
    residual = _residual(network, audio, network.card.snr)
    assert not residual[2 * SEGMENT_SAMPLES : 4 * SEGMENT_SAMPLES].any()
    stream = Heard(network, (audio + residual).astype(np.float32)[:, None]).message((0, 6 * FRAMES_PER_SECOND))
    logits = network.message.carriers.slot_llrs(stream.reshape(6, FRAMES_PER_SECOND, -1))
    loud = [0, 1, 4, 5]
    assert ((network.message.code.decode_word(logits[loud]) > 0) == (messages[loud] > 0)).mean() > 0.95


# Channels


def test_channels_are_marked_each_on_its_own_and_like_ones_once(
    network: Network, speech: NDArray[np.float32], strings: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = speech[-2 * SEGMENT_SAMPLES :], strings[: 2 * SEGMENT_SAMPLES]
    audio = np.stack([one, np.zeros_like(one), one, other], 1)
    alone = [_marked(_embedding(network, audio[:, [each]], SAMPLE_RATE), [audio[:, [each]]])[:, 0] for each in range(4)]
    passes, mark = [], network.mark
    monkeypatch.setattr(network, "mark", lambda *given: passes.append(1) or mark(*given))
    marked = _marked(_embedding(network, audio, SAMPLE_RATE), [audio])
    assert len(passes) == 3 * len(network.parts(0, 2 * FRAMES_PER_SECOND, 2 * FRAMES_PER_SECOND))
    assert np.array_equal(marked, np.stack(alone, 1))
    assert not marked[:, 1].any()


# In time, and in constant memory


@pytest.mark.parametrize(("rate", "block"), [(8_000, 1), (16_000, 1), (16_000, 2), (44_100, 1), (192_000, 2)])
def test_no_sample_waits_longer_than_said(
    network: Network, strings: NDArray[np.float32], rate: int, block: int
) -> None:
    audio = soxr.resample(strings, SAMPLE_RATE, rate)[:, None]
    embedding = _embedding(network, audio, rate, block=block)
    given, waits, piece = 0, [], rate // 100
    for start in range(0, len(audio), piece):
        waits.append((start - given) / rate)  # the oldest sample that is still inside, just before the next piece
        given += len(embedding.push(audio[start : start + piece]))
    assert block + 1 < max(waits) <= embedding.latency < block + 2


THIRTY_MINUTES = """
from importlib import resources
from pathlib import Path
import numpy as np
from ideaw.engine.embedding import Embedding
from ideaw.engine.network import Network

network = Network(Path(str(resources.files("ideaw").joinpath("weights", "46+10"))))
network.mark = lambda host, message, code: 0.01 * host  # what is measured is everything around the network
frames, code = np.zeros((1, 46), int), np.zeros(10, int)
embedding = Embedding(network, frames, code, 22_050, 1, 38.0, 2.0**-15)
audio = np.random.default_rng(0).uniform(-0.5, 0.5, (10 * 22_050, 1))

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024

length = 0
for seconds in range(0, 30 * 60, 10):
    length += len(embedding.push(audio))
    if seconds == 60:
        early = peak()
assert length + len(embedding.finish()) == 30 * 60 * 22_050
print(early, peak())
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of a single program")
def test_half_an_hour_takes_no_more_memory_than_a_minute() -> None:
    run = subprocess.run([sys.executable, "-c", THIRTY_MINUTES], capture_output=True, text=True, check=True)
    after_a_minute, in_the_end = map(int, run.stdout.split())
    assert in_the_end <= after_a_minute + 10  # MiB; the audio alone would be 300
    assert in_the_end < 120


# What only the end can tell


def test_says_how_loud_the_audio_was(network: Network, music: NDArray[np.float32]) -> None:
    audio = music[: 2 * 44_100 + 999]
    embedding = _embedding(network, audio, 44_100)
    assert embedding.power == embedding.narrow_power == 0
    _marked(embedding, _cut(audio, 10_000, seed=4))
    assert np.isclose(embedding.power, np.square(audio, dtype=np.float64).mean())
    assert np.isclose(embedding.narrow_power, np.square(to_network(audio, 44_100), dtype=np.float64).mean())


def test_says_that_nothing_is_below_8_khz(network: Network) -> None:
    whistle = 0.5 * np.sin(2 * np.pi * 12_000 * np.arange(2 * 44_100) / 44_100)[:, None]
    embedding = _embedding(network, whistle, 44_100)
    _marked(embedding, [whistle])
    assert embedding.power > 0.1
    assert embedding.narrow_power < 1e-6


def test_says_how_much_of_the_mark_is_left(network: Network, speech: NDArray[np.float32]) -> None:
    shares = []
    for gain, step in ((0.0, 0.0), (1.0, 0.0), (1.0, 2.0**-15), (0.1, 2.0**-7)):
        audio = _on_grid(gain * speech[-2 * SEGMENT_SAMPLES :, None], step)
        embedding = _embedding(network, audio, SAMPLE_RATE, step=step)
        _marked(embedding, [audio])
        shares.append(embedding.left)
    silent, floats, narrow, narrowest = shares
    assert silent == 1
    assert 0.9999 < floats <= 1
    assert 0.99 < narrow < 1
    assert narrowest < 0.05
