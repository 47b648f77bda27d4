"""What all linear codes here share: soft-decision decoding of scaled LLRs, in batches of bounded memory.

Conventions: an LLR is positive for 1; a *score* is the correlation of LLRs with a code word in ±1. Half the score is
the log-likelihood of the word up to a constant, which is why differences of scores are halved to give LLRs of bits.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Real = TypeVar("Real", bound=np.floating)

Bits = NDArray[np.integer | np.bool_]

MAX_HELD_SCORES = 1 << 22
"""Scores of words or states that are held at a time; bounds the memory."""

MIN_LLR_SHARE = 1e-4
"""Share of the largest LLR of a block below which differences are rounding; a bit without evidence keeps this much."""

LLR_SCALE = 0.5
"""Nats of log-likelihood per unit of score; one half takes LLRs at face value."""

MAX_LLR_SCALE = 1e20
"""At this scale the sum over words is their maximum already, and beyond it would overflow."""

NEGLIGIBLE_NATS = 40.0
"""A term that is smaller than the largest by so many nats adds nothing to a sum."""


@dataclass(frozen=True, eq=False)
class FecCode(ABC):
    """A binary linear code.

    Attributes:
        generator: (bits, slots) zeros and ones.
    """

    generator: NDArray[np.uint8]

    def encode(self, bits: Bits) -> NDArray[np.uint8]:
        """(…, bits) zeros and ones → (…, slots) zeros and ones."""
        return np.asarray(bits).astype(np.uint8) @ self.generator & np.uint8(1)

    def word_score(self, llrs: NDArray[np.floating]) -> NDArray[np.float64]:
        """(…, slots) LLRs → (…): the score of the word that `decode_word` gives."""
        word = 2.0 * self.encode(self.decode_word(llrs) > 0) - 1
        return np.asarray((np.asarray(llrs, np.float64) * word).sum(-1))

    @abstractmethod
    def decode_word(self, llrs: NDArray[np.floating], prefix: Bits | None = None) -> NDArray[np.float32]:
        """Decode the maximum-likelihood word, with max-log margins.

        Args:
            llrs: (…, slots), positive for 1.
            prefix: (…, known) first bits of the message if they are known.

        Returns:
            (…, bits), none of them 0: signs are the word's bits; a magnitude is the log-likelihood ratio to the best
            word in which that bit differs.
        """

    @abstractmethod
    def bit_llrs(self, llrs: NDArray[np.floating]) -> NDArray[np.float32]:
        """Decode bit by bit (MAP): (…, slots) LLRs → (…, bits) posterior LLRs, marginalised over all words.

        Fewer bits are wrong than in the maximum-likelihood word, but together they need not be a likely word.
        """

    def log_evidence(self, llrs: NDArray[np.floating]) -> NDArray[np.float64]:
        """(…, slots) LLRs → (…): `logsumexp` of the scores of all words or, of too many, the best score."""
        return self.word_score(llrs)


class Uncoded(FecCode):
    """No code: every slot is a bit."""

    def decode_word(self, llrs: NDArray[np.floating], prefix: Bits | None = None) -> NDArray[np.float32]:
        decoded = np.array(llrs, np.float64)
        if prefix is not None:
            decoded[..., : prefix.shape[-1]] = np.where(prefix, np.inf, -np.inf)
        return _clip_to_float32(decoded)

    def bit_llrs(self, llrs: NDArray[np.floating]) -> NDArray[np.float32]:
        return self.decode_word(llrs)


class SoftCode(FecCode):
    """A code that is decoded by comparing scores, block by block."""

    def decode_word(self, llrs: NDArray[np.floating], prefix: Bits | None = None) -> NDArray[np.float32]:
        batch = np.shape(llrs)[:-1]
        given = np.zeros((*batch, 0), bool) if prefix is None else np.asarray(prefix, bool)
        known = given.reshape(prod(batch), given.shape[-1])
        normalised, scale = self._normalise(llrs, 0)
        values = [self._decode_blocks(normalised[part], known[part]) for part in self._parts(normalised)]
        return self._rescale(values, scale).reshape(*batch, len(self.generator))

    def bit_llrs(self, llrs: NDArray[np.floating]) -> NDArray[np.float32]:
        # A sum over words depends on the scale. Small LLRs are not enlarged, or their rounding would be enlarged too.
        normalised, scale = self._normalise(llrs, 1)
        values = [self._marginalise(normalised[part], llr_scale(scale[part])) for part in self._parts(normalised)]
        return self._rescale(values, scale).reshape(*np.shape(llrs)[:-1], len(self.generator))

    def _normalise(
        self, llrs: NDArray[np.floating], min_scale: float
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """(…, slots) → (blocks, slots) divided by (blocks, 1), so that no sum of finite LLRs overflows.

        The scale is the largest magnitude of a block if that is over `min_scale`, else 1.
        """
        blocks = np.asarray(llrs, np.float64).reshape(prod(np.shape(llrs)[:-1]), self.generator.shape[1])
        largest = np.abs(blocks).max(-1, keepdims=True, initial=0)
        scale = np.where(largest > min_scale, largest, 1)
        return (blocks / scale).astype(np.float32), scale

    def _parts(self, normalised: NDArray[np.float32]) -> list[slice]:
        """Slices of blocks whose scores fit into MAX_HELD_SCORES."""
        blocks = max(1, MAX_HELD_SCORES // self._scores_per_block)
        return [slice(first, first + blocks) for first in range(0, len(normalised), blocks)]

    def _rescale(self, parts: list[NDArray[np.float32]], scale: NDArray[np.float64]) -> NDArray[np.float32]:
        """Normalised values of all parts → (blocks, bits) LLRs of which none is 0."""
        values = np.concatenate([np.empty((0, len(self.generator))), *parts])
        magnitudes = scale * np.maximum(np.abs(values), MIN_LLR_SHARE)
        return _clip_to_float32(np.where(np.signbit(values), -magnitudes, magnitudes))

    @property
    @abstractmethod
    def _scores_per_block(self) -> int:
        """Scores that are held to decode a block."""

    @abstractmethod
    def _decode_blocks(self, llrs: NDArray[np.float32], prefix: NDArray[np.bool_]) -> NDArray[np.float32]:
        """(blocks, slots) and (blocks, known) → (blocks, bits), as `decode_word`."""

    @abstractmethod
    def _marginalise(self, llrs: NDArray[np.float32], scale: NDArray[np.float32]) -> NDArray[np.float32]:
        """(blocks, slots) and (blocks, 1), the scale of `logsumexp` → (blocks, bits), as `bit_llrs`."""


def all_words(bits: int) -> NDArray[np.uint8]:
    """(2^bits, bits): all words of so many bits, the first bit the slowest."""
    return (np.arange(1 << bits)[:, None] >> np.arange(bits)[::-1] & 1).astype(np.uint8)


def logsumexp(values: NDArray[Real], scale: NDArray[Real] | float | None) -> NDArray[Real]:
    """(…, n) → (…): log Σ exp(scale · value) / scale; without a scale the maximum (max-log)."""
    total = values.max(-1, keepdims=True)
    if scale is not None:
        terms = np.exp(np.maximum(scale * (values - total), -NEGLIGIBLE_NATS))
        total += np.log(terms.sum(-1, keepdims=True)) / scale
    return np.asarray(total[..., 0])


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


def llr_scale(unit: NDArray[np.float64]) -> NDArray[np.float32]:
    """Nats of log-likelihood per unit of score, if LLRs were divided by `unit`."""
    return np.minimum(LLR_SCALE * unit, MAX_LLR_SCALE).astype(np.float32)


def _clip_to_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    limit = np.finfo(np.float32).max
    return values.clip(-limit, limit).astype(np.float32)
