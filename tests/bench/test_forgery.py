"""Forged words: products of patterns are patterns, the cipher makes them words at random, and tags tell them apart."""

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw
from ideaw.bench import forgery
from ideaw.bench.forgery import COMBINED_PATTERNS, compare_proofs, expected_tries_log2, forge
from ideaw.errors import IdeawError
from ideaw.keys import Key
from ideaw.modem import short_frames
from ideaw.modem.channel import KeyChannels
from ideaw.modem.short_frames import RingFrames

SECRET = Key(bytes(range(32)))
TRIES = 14


@pytest.fixture(scope="module")
def channels() -> KeyChannels:
    return ideaw.load("46+10").network.channels(SECRET)


def test_a_product_of_three_patterns_is_the_pattern_of_their_sum(channels: KeyChannels) -> None:
    frames = channels.short
    assert isinstance(frames, RingFrames)
    words = np.random.default_rng(0).integers(0, 2, (COMBINED_PATTERNS, frames.code.bits))
    product = np.prod(frames.code.encode(words), 0)
    assert (frames.code.decode(product, 0)[0][0] == words.sum(0) % 2).all()


def test_without_the_cipher_every_combination_would_be_accepted(
    channels: KeyChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_it_is(bits: NDArray[np.uint8], key: bytes) -> NDArray[np.uint8]:
        return bits

    enciphered = forge(channels, "combined", TRIES, np.random.default_rng(1))
    assert (enciphered.past_zeros, enciphered.accepted, enciphered.accepted_negated) == (0, 0, 0)
    for module, name in ((short_frames, "encipher"), (short_frames, "decipher"), (forgery, "decipher")):
        monkeypatch.setattr(module, name, as_it_is)
    plain = forge(channels, "combined", TRIES, np.random.default_rng(1))
    assert plain.past_zeros == plain.tries == TRIES
    assert plain.accepted + plain.accepted_negated >= TRIES - 4  # a tag with as many right as wrong fails both ways
    assert plain.known < TRIES


def test_tries_are_the_same_again_and_unknown_methods_are_refused(channels: KeyChannels) -> None:
    one, other = (forge(channels, "word", 4, np.random.default_rng(2)) for _ in range(2))
    assert one == other
    assert (one.tries, one.known) == (4, 0)
    assert expected_tries_log2(channels) == 12
    other_code = ideaw.load("22+10").network.channels(SECRET)
    assert expected_tries_log2(other_code) is None
    assert forge(other_code, "signs", 4, np.random.default_rng(3)).past_zeros is None
    for kind, method in ((channels, "magic"), (other_code, "word")):
        with pytest.raises(IdeawError, match="methods are: combined, word, signs"):
            forge(kind, method, 1, np.random.default_rng(0))


def test_bits_of_proof_tell_tags_at_random_from_genuine_ones(channels: KeyChannels) -> None:
    at_random, genuine, *noisy = compare_proofs(channels, TRIES, np.random.default_rng(4))
    assert len(genuine.check_bits) == TRIES
    assert len(at_random.check_bits) <= TRIES - 2  # half of the tags point the other way
    assert min(genuine.check_bits) >= 48 > 28 > max(at_random.check_bits, default=0)
    assert all(12 < np.median(row.check_bits) < 60 for row in noisy)
