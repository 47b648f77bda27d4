"""FEC of few bits, decoded by correlation with every word: exact maximum likelihood and exact MAP; and no FEC."""

import hashlib
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ideaw.modem.soft_decision import Bits, FecCode, Real, SoftCode, clip_to_float32, llr_scale, logsumexp

MAX_EXHAUSTIVE_BITS = 12
"""Most bits of which all 2^bits words are compared."""

MAX_EXHAUSTIVE_SLOTS = 640
"""Most slots of such an FEC."""

NUM_ROW_CANDIDATES, MAX_COMPARED_WORDS = 64, 1_024
"""Candidates for each row of a generator matrix, and most words of the rows before that they are compared with."""


class Uncoded(FecCode):
    """No FEC: every slot is a bit."""

    def decode_word(self, llrs: NDArray[np.floating], prefix: Bits | None = None) -> NDArray[np.float32]:
        decoded = np.array(llrs, np.float64)
        if prefix is not None:
            decoded[..., : prefix.shape[-1]] = np.where(prefix, np.inf, -np.inf)
        return clip_to_float32(decoded)

    def bit_llrs(self, llrs: NDArray[np.floating]) -> NDArray[np.float32]:
        return self.decode_word(llrs)


class ExhaustiveCode(SoftCode):
    """An FEC of which all words are compared."""

    @classmethod
    def of(cls, bits: int, slots: int) -> "ExhaustiveCode":
        """The FEC of `bits` bits in `slots` slots."""
        return cls(_generator(bits, slots))

    @cached_property
    def _messages(self) -> NDArray[np.uint8]:
        return all_words(len(self.generator))

    @cached_property
    def _words(self) -> NDArray[np.float32]:
        """(2^bits, slots): all code words in ±1."""
        return 2 * self.encode(self._messages).astype(np.float32) - 1

    @property
    def _scores_per_block(self) -> int:
        return len(self._words)

    def _decode_blocks(self, llrs: NDArray[np.float32], prefix: NDArray[np.bool_]) -> NDArray[np.float32]:
        known = prefix.shape[1]
        scores = llrs @ self._words.T
        possible = (self._messages[:, :known] == prefix[:, None]).all(-1)
        scores = np.where(possible, scores, -np.inf)
        best = self._messages[scores.argmax(-1)]
        same = (self._messages[:, bit] == best[:, bit, None] for bit in range(best.shape[1]))
        rivals = np.stack([np.where(words, -np.inf, scores).max(-1) for words in same], -1)
        margins = (scores.max(-1, keepdims=True) - rivals) / 2
        return np.asarray(np.where(best, margins, -margins))

    def _marginalise(self, llrs: NDArray[np.float32], scale: NDArray[np.float32]) -> NDArray[np.float32]:
        return bit_llrs_of_words(llrs @ self._words.T, scale)

    def log_evidence(self, llrs: NDArray[np.floating]) -> NDArray[np.float64]:
        normalised, unit = self._normalise(llrs, 1)
        parts = [logsumexp(normalised[part] @ self._words.T, llr_scale(unit[part])) for part in self._parts(normalised)]
        return (np.concatenate([np.empty(0), *parts]) * unit[:, 0]).reshape(np.shape(llrs)[:-1])


def all_words(bits: int) -> NDArray[np.uint8]:
    """(2^bits, bits): all words of so many bits in counting order, the first bit the highest."""
    return (np.arange(1 << bits)[:, None] >> np.arange(bits)[::-1] & 1).astype(np.uint8)


def bit_llrs_of_words(scores: NDArray[Real], scale: NDArray[Real] | float) -> NDArray[Real]:
    """Marginalise over words: (blocks, 2^bits) scores in the order of `all_words` → (blocks, bits) LLRs."""
    blocks, words = scores.shape
    bits = words.bit_length() - 1
    llrs = np.empty((blocks, bits), scores.dtype)
    for bit in range(bits):
        values = scores.reshape(blocks, 1 << bit, 2, -1)
        zero, one = (logsumexp(values[:, :, value].reshape(blocks, -1), scale) for value in (0, 1))
        llrs[:, bit] = (one - zero) / 2
    return llrs


def _generator(bits: int, slots: int) -> NDArray[np.uint8]:
    """The generator matrix (bits, slots): half of the slots, or one for each bit, are systematic, the others parities.

    Greedy: the parities of a row are those of NUM_ROW_CANDIDATES pseudo-random ones with the largest minimum distance
    from the words of the rows before and, of these, the fewest words at that distance.
    """
    repeats = max(1, slots // (2 * bits))
    width = slots - repeats * bits
    parities, words = np.empty((0, width), np.uint8), np.zeros((1, width), np.uint8)
    systematic_weight = np.zeros(1, np.int64)
    for row in range(bits):
        label = f"ideaw block code {bits} {slots} {row}".encode()
        stream = hashlib.shake_256(label).digest(NUM_ROW_CANDIDATES * MAX_EXHAUSTIVE_SLOTS // 8)
        candidates = np.unpackbits(np.frombuffer(stream, np.uint8)).reshape(NUM_ROW_CANDIDATES, -1)[:, :width]
        candidates[0] = 1
        correlation = (1 - 2 * candidates.astype(np.float32)) @ (1 - 2 * words.astype(np.float32)).T
        distances = (width - correlation.astype(np.int64)) // 2 + systematic_weight + repeats
        least = distances.min(-1)
        parity = candidates[(least * distances.size - (distances == least[:, None]).sum(-1)).argmax()]
        parities = np.concatenate([parities, parity[None]])
        new = len(words) if len(words) < MAX_COMPARED_WORDS else 1
        words = np.concatenate([words, words[:new] ^ parity])
        systematic_weight = np.concatenate([systematic_weight, systematic_weight[:new] + repeats])
    return np.concatenate([np.tile(np.eye(bits, dtype=np.uint8), repeats), parities], -1)
