"""Segments of one second: the engine writes and reads what torch writes and reads, at exactly the level asked for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ideaw.audio.grid import SEGMENT_SAMPLES
from ideaw.engine.network import Network
from ideaw.engine.segments import BATCH_SEGMENTS, decode_jointly, embed_segments, extract_segments
from ideaw.keys import PUBLIC
from ideaw.models import find_model, model_names
from ideaw.modem.channel import BitChannel, KeyChannels
from ideaw.modem.fec import all_words, fec_code
from ideaw.nets.build import AnyNet
from ideaw.nets.carriers import Carriers
from ideaw.train.export import load_weights

Bits = tuple[NDArray[np.integer], NDArray[np.integer]]
"""Zeros and ones of message and code, (batch, bits) each."""


@pytest.fixture(scope="module")
def model(folder: Path) -> AnyNet:
    return load_weights(folder)


@pytest.fixture(scope="module")
def segments(speech: NDArray[np.float32], strings: NDArray[np.float32]) -> NDArray[np.float32]:
    """Three seconds of speech and three of music, one of them as quiet as −60 dBFS, `(6, 16000)`."""
    chosen = (
        np.concatenate([speech[-3 * SEGMENT_SAMPLES :], strings[: 3 * SEGMENT_SAMPLES]])
        .reshape(6, SEGMENT_SAMPLES)
        .copy()
    )
    chosen[1] *= 1e-3 / chosen[1].std()
    return chosen


def _bits(network: Network, batch: int, seed: int = 7) -> Bits:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2, (batch, network.card.message_bits)), rng.integers(0, 2, (batch, network.card.code_bits))


@pytest.fixture(scope="module")
def bits(network: Network) -> Bits:
    return _bits(network, 6)


@pytest.fixture(scope="module")
def marked(network: Network, channels: KeyChannels, segments: NDArray[np.float32], bits: Bits) -> NDArray[np.float64]:
    return embed_segments(network, channels, segments, *bits, snr=network.card.snr)


def _snrs(audio: NDArray[np.floating], marked: NDArray[np.floating]) -> NDArray[np.float64]:
    """SNR of every segment in dB."""
    noise = np.square(marked.astype(np.float64) - audio).sum(1)
    return 10 * np.log10(np.square(audio, dtype=np.float64).sum(1) / noise)


@pytest.mark.parametrize("snr", [0.0, 15.0, 38.0, 60.0])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_every_segment_is_at_exactly_the_asked_level(
    network: Network, channels: KeyChannels, segments: NDArray[np.float32], bits: Bits, snr: float, kind: str
) -> None:
    audio = segments.astype(kind)
    marked = embed_segments(network, channels, audio, *bits, snr=snr)
    assert marked.shape == audio.shape
    assert marked.dtype == np.float64
    # Rounded as callers will round it.
    measured = _snrs(audio, marked.astype(kind))
    assert measured.min() >= snr
    assert measured.max() < snr + 3e-4


def test_all_bits_come_back(network: Network, channels: KeyChannels, marked: NDArray[np.float64], bits: Bits) -> None:
    for logits, written in zip(extract_segments(network, channels, marked), bits, strict=True):
        assert logits.shape == written.shape
        assert logits.dtype == np.float32
        assert np.array_equal(logits > 0, written > 0)


@pytest.mark.parametrize("gain", [-1.0, 0.1, -3.0])
def test_neither_polarity_nor_level_matters(
    network: Network, channels: KeyChannels, marked: NDArray[np.float64], bits: Bits, gain: float
) -> None:
    read, plain = (extract_segments(network, channels, factor * marked)[0] for factor in (gain, 1))
    # All but the quiet one, whose level is near that of silence, stay the same to rounding, which is that of 8 bits.
    loud = [0, 2, 3, 4, 5]
    assert np.linalg.norm(read[loud] - plain[loud]) < 5e-2 * np.linalg.norm(plain[loud])
    assert ((read > 0) == (bits[0] > 0)).mean() > 0.98


@pytest.mark.slow
def test_every_packaged_length_is_read(segments: NDArray[np.float32]) -> None:
    for name in model_names():
        network = Network(find_model(name))
        channels, (message, code) = network.channels(PUBLIC), _bits(network, 6, seed=1)
        marked = embed_segments(network, channels, segments, message, code, network.card.snr)
        read, read_code = extract_segments(network, channels, marked)
        assert read.shape == (6, network.card.message_bits)
        assert np.array_equal(read > 0, message > 0)
        assert np.array_equal(read_code > 0, code > 0)


def test_another_key_reads_nothing(
    network: Network, channels: KeyChannels, marked: NDArray[np.float64], bits: Bits
) -> None:
    other = network.channels(b"another key")
    for logits, ours, written in zip(
        extract_segments(network, other, marked), extract_segments(network, channels, marked), bits, strict=True
    ):
        assert 0.35 < ((logits > 0) == (written > 0)).mean() < 0.65
        assert np.abs(logits).mean() < 0.3 * np.abs(ours).mean()


# What torch does


def _torch(channel: BitChannel) -> Carriers:
    maps = torch.from_numpy(channel.carriers.stream(np.eye(channel.carriers.slots, dtype=np.float32)))
    return Carriers(maps, maps)


@pytest.mark.slow
def test_embedding_is_that_of_torch(
    model: Any,
    network: Network,
    channels: KeyChannels,
    segments: NDArray[np.float32],
    marked: NDArray[np.float64],
    bits: Bits,
) -> None:
    message = torch.from_numpy(channels.message.fec.symbols(bits[0]) * channels.scrambler(bits[1]))
    code = torch.from_numpy(channels.code.fec.symbols(bits[1]))
    carriers = (_torch(channels.message), _torch(channels.code))
    with torch.no_grad():
        theirs = model.embed(torch.from_numpy(segments), message, code, network.card.snr, carriers).numpy()
    strength = np.linalg.norm(marked - segments, axis=1)
    assert (np.linalg.norm(marked - theirs, axis=1) < 0.3 * strength).all()  # eight bits against thirty-two


def test_logits_are_those_of_torch(
    model: Any, network: Network, channels: KeyChannels, marked: NDArray[np.float64]
) -> None:
    carriers = (_torch(channels.message), _torch(channels.code))
    with torch.no_grad():
        slots = [llrs.numpy() for llrs in model.extract(torch.from_numpy(marked.astype(np.float32)), carriers)]
    theirs = (channels.message.fec.bit_llrs(slots[0]), channels.code.fec.bit_llrs(slots[1]))
    for ours, other in zip(extract_segments(network, channels, marked), theirs, strict=True):
        # Eight bits against thirty-two: what stands out is cut off, so most are surer, music up to three times; some
        # are less so, since a rival of theirs was.
        assert all(np.corrcoef(one, two)[0, 1] > 0.99 for one, two in zip(ours, other, strict=True))
        surer = np.linalg.norm(ours, axis=1) / np.linalg.norm(other, axis=1)
        assert 0.7 < surer.min() <= surer.max() < 4


# Batches and odd segments


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, BATCH_SEGMENTS + 1])
def test_a_batch_is_marked_and_read_as_its_segments_are(
    network: Network, channels: KeyChannels, segments: NDArray[np.float32], count: int
) -> None:
    audio = segments[np.arange(count) % len(segments)]
    message, code = _bits(network, count)
    marked = embed_segments(network, channels, audio, message, code, 30.0)
    read, read_code = extract_segments(network, channels, marked)
    assert read.shape == message.shape
    assert read_code.shape == code.shape
    assert ((read > 0) == (message > 0)).mean() > 0.99
    for place in {0, BATCH_SEGMENTS - 1, BATCH_SEGMENTS, count - 1} & set(range(count)):
        one = slice(place, place + 1)
        alone = embed_segments(network, channels, audio[one], message[one], code[one], 30.0)
        assert np.abs(alone - marked[one]).max() < 1e-6
        alone_read, alone_code = extract_segments(network, channels, marked[one])
        assert np.abs(alone_read - read[one]).max() < 1e-3 * np.abs(read).max()
        assert np.abs(alone_code - read_code[one]).max() < 1e-3 * np.abs(read_code).max()


def test_silence_stays_silent_and_spoils_no_other(
    network: Network, channels: KeyChannels, segments: NDArray[np.float32], marked: NDArray[np.float64], bits: Bits
) -> None:
    audio = segments.copy()
    audio[2] = 0
    with np.errstate(all="raise"):
        with_silence = embed_segments(network, channels, audio, *bits, snr=network.card.snr)
        logits = extract_segments(network, channels, with_silence)
    assert not with_silence[2].any()
    others = [0, 1, 3, 4, 5]
    assert np.abs(with_silence[others] - marked[others]).max() < 1e-6
    assert all(np.isfinite(llrs).all() for llrs in logits)


@pytest.mark.parametrize("level", [1e-7, 1e-4, 30.0])
def test_faint_and_loud_segments_keep_their_snr(
    network: Network, channels: KeyChannels, segments: NDArray[np.float32], bits: Bits, level: float
) -> None:
    audio = segments.astype(np.float64) * level
    assert _snrs(audio, embed_segments(network, channels, audio, *bits, snr=30.0)).min() >= 30


# The code in the message's slots


def test_the_messages_slots_tell_a_code_that_its_own_slots_do_not(speech: NDArray[np.float32]) -> None:
    network = Network(find_model("10+10"))
    channels = network.channels(PUBLIC)
    rng = np.random.default_rng(5)
    message, code = rng.integers(0, 2, 10), rng.integers(0, 2, 10)
    slots = channels.message.fec.symbols(message) * channels.scrambler(code)
    llrs, code_llrs = decode_jointly(channels, slots, np.zeros(network.card.code_slots, np.float32))
    assert np.array_equal(llrs > 0, message)
    assert np.array_equal(code_llrs > 0, code)
    audio = speech[2 * SEGMENT_SAMPLES : 4 * SEGMENT_SAMPLES].reshape(2, SEGMENT_SAMPLES)
    bits = np.stack([message, 1 - message]), np.stack([code, 1 - code])
    read = extract_segments(network, channels, embed_segments(network, channels, audio, *bits, 38.0))
    assert all(np.array_equal(logits > 0, sent) for logits, sent in zip(read, bits, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", model_names())
@pytest.mark.parametrize("late", [-800, -125, 125, 800])
def test_a_segment_is_read_up_to_a_twentieth_of_a_second_off_its_place(
    name: str, late: int, speech: NDArray[np.float32]
) -> None:
    network = Network(find_model(name))
    channels = network.channels(PUBLIC)
    audio = speech[2 * SEGMENT_SAMPLES : 5 * SEGMENT_SAMPLES].reshape(3, SEGMENT_SAMPLES)
    bits = _bits(network, 3)
    shifted = np.roll(
        np.pad(embed_segments(network, channels, audio, *bits, network.card.snr), ((0, 0), (800, 800))), late, 1
    )
    read = extract_segments(network, channels, shifted[:, 800 : 800 + SEGMENT_SAMPLES])
    assert all(np.array_equal(logits > 0, sent) for logits, sent in zip(read, bits, strict=True))


def _jointly_coded(message: tuple[int, int], code: tuple[int, int]) -> KeyChannels:
    """The channels of 10+10 with other codes, (bits, slots) each; its carriers no longer belong to them."""
    channels = Network(find_model("10+10")).channels(PUBLIC)
    return KeyChannels(
        PUBLIC,
        BitChannel(fec_code(*message), channels.message.carriers),
        BitChannel(fec_code(*code), channels.code.carriers),
        np.zeros(code[0], np.uint8),
        scrambled_by_code=True,
    )


def _receive(channels: KeyChannels, variance: float, seed: int) -> tuple[Bits, list[NDArray[np.float32]]]:
    """A message and a code, (bits,) each, and LLRs of their slots in white noise."""
    rng = np.random.default_rng(seed)
    message, code = (rng.integers(0, 2, len(channel.fec.generator)) for channel in (channels.message, channels.code))
    sent = channels.message.fec.symbols(message) * channels.scrambler(code), channels.code.fec.symbols(code)
    received = [2 * (symbols + rng.normal(0, variance**0.5, symbols.shape)) / variance for symbols in sent]
    return (message, code), [llrs.astype(np.float32) for llrs in received]


@pytest.mark.parametrize("variance", [4.0, 14.0, 1000.0])
def test_all_codes_and_all_messages_have_a_say(variance: float) -> None:
    channels = Network(find_model("10+10")).channels(PUBLIC)
    words = all_words(10)
    _, (message, code) = _receive(channels, variance, seed=3)
    scores = channels.code.fec.symbols(words) @ code
    sums = scores[:, None] + (message * channels.scrambler(words)) @ channels.message.fec.symbols(words).T
    weights = np.exp((sums - sums.max()).astype(np.float64) / 2)
    for llrs, total in zip(decode_jointly(channels, message, code), (weights.sum(0), weights.sum(1)), strict=True):
        exact = np.log(total @ words) - np.log(total @ (1 - words))
        # Codes that are e^-20 times as likely as the best are left out.
        assert np.abs(llrs - exact)[np.abs(exact) < 10].max(initial=0) < 1e-2
        assert np.array_equal(llrs > 0, exact > 0)


@pytest.mark.parametrize("message", [(10, 100), (22, 528), (20, 20)])
@pytest.mark.parametrize("code", [(4, 40), (0, 0)])
def test_codes_of_any_kind_are_decoded_together(message: tuple[int, int], code: tuple[int, int]) -> None:
    channels = _jointly_coded(message, code)
    for variance in (0.05, 1e6):
        sent, slots = _receive(channels, variance, seed=4)
        with np.errstate(all="raise"):
            pairs = [decode_jointly(channels, *(scale * llrs for llrs in slots)) for scale in (0, 1, 1e30)]
        for pair in pairs:
            assert [llrs.shape for llrs in pair] == [bits.shape for bits in sent]
            assert all(np.isfinite(llrs).all() and llrs.all() for llrs in pair)
        if variance < 1:
            for pair in pairs[1:]:
                assert all(np.array_equal(llrs > 0, bits) for llrs, bits in zip(pair, sent, strict=True))
