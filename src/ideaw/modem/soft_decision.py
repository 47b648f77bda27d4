"""Soft-decision decoding: what all FEC here shares, and tail-biting convolutional codes for many bits.

Conventions: an LLR is positive for 1; a *score* is the correlation of LLRs with a code word in ±1. Half the score is
the log-likelihood of the word up to a constant, which is why differences of scores are halved to give LLRs of bits.

Tail-biting codes have memory 10 and are decoded on the circular trellis both ways: max-log gives the maximum-likelihood
word (Viterbi's algorithm with margins), log-sum-exp the posterior of each bit (BCJR/MAP). Going around the circle
several times, instead of once per starting state, is nearly maximum likelihood: of the words that are decoded wrongly,
one in eight at 46 bits and one in two at 22 bits scores lower than the word that was sent. Some slots are systematic:
where there is too little energy for the right word, a wrong one has fewer wrong bits.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import log, prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Real = TypeVar("Real", bound=np.floating)

Bits = NDArray[np.integer | np.bool_]

MAX_HELD_SCORES = 1 << 22
"""Most scores of words or states that are held at a time; bounds the memory."""

MIN_LLR_SHARE = 1e-4
"""Least magnitude of a decoded LLR, as a share of the block's largest input LLR: smaller values are rounding."""

LLR_SCALE = 0.5
"""Nats of log-likelihood per unit of score; one half takes LLRs at face value."""

MAX_LLR_SCALE = 1e20
"""Largest scale used: the sum over words equals their maximum there, and larger ones would overflow."""

NEGLIGIBLE_NATS = 40.0
"""A term that is smaller than the largest by so many nats adds nothing to a sum."""

MEMORY_BITS = 10
"""Memory of the convolutional code: earlier bits that a slot can depend on."""

NUM_STATES = 1 << MEMORY_BITS
"""States of the trellis."""

GENERATOR_POLYNOMIALS = (
    0x6E5, 0x5FB, 0x59D, 0x5D1, 0x675, 0x6F9, 0x6C7, 0x7D5, 0x4D7,
    0x65F, 0x5DD, 0x72B, 0x7D3, 0x5CD, 0x657, 0x6F9, 0x7B5, 0x6A7,
)  # fmt: skip
"""Which bits a slot sums up, the newest as the lowest binary digit. Each was chosen, of 160 or more, for the distance
of the code of all up to it; two alone have free distance 14, the best known for two."""

SHORT_RING_BITS = 3 * MEMORY_BITS
"""With fewer bits the FEC has more systematic slots: circular decoding misses the best word there anyway."""

MAX_SLOTS_PER_BIT = 24
"""Reciprocal of the lowest rate: one slot for each polynomial, and a quarter of them systematic."""

MIN_TRELLIS_STEPS = 9 * MEMORY_BITS
"""Least number of steps around the circle, in whole turns, after which the unknown starting state does not matter."""

_CHERNOFF_LAMBDAS = np.geomspace(0.05, 20, 24)
"""Values of λ in Chernoff's bound, for slots of RMS 1."""


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

    def symbols(self, bits: Bits) -> NDArray[np.float32]:
        """(…, bits) zeros and ones → (…, slots) of −1 and +1."""
        return 2 * self.encode(bits).astype(np.float32) - 1

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


class SoftCode(FecCode):
    """FEC that is decoded by comparing scores of words, block by block."""

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
        return clip_to_float32(np.where(np.signbit(values), -magnitudes, magnitudes))

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


@dataclass(frozen=True, eq=False)
class TailBitingCode(SoftCode):
    """A tail-biting convolutional code; each bit is a step of the trellis with a slot for each polynomial.

    Attributes:
        polynomials: Generator polynomials of the slots of a step; 1 is a systematic slot.
    """

    polynomials: tuple[int, ...]

    @classmethod
    def of(cls, bits: int, slots_per_bit: int) -> "TailBitingCode":
        """The FEC of `bits` bits at rate 1 / `slots_per_bit`."""
        systematic = slots_per_bit // (3 if bits < SHORT_RING_BITS else 4)
        polynomials = (1,) * systematic + GENERATOR_POLYNOMIALS[: slots_per_bit - systematic]
        # What the first bit adds to the slots of its own step and of those after it; other rows are rotations.
        first = np.zeros((bits, slots_per_bit), np.uint8)
        for delay in range(MEMORY_BITS + 1):
            first[delay % bits] ^= np.array([polynomial >> delay & 1 for polynomial in polynomials], np.uint8)
        return cls(np.stack([np.roll(first, step, 0).ravel() for step in range(bits)]), polynomials)

    @cached_property
    def _signs(self) -> NDArray[np.float32]:
        """(slots_per_bit, 2 · NUM_STATES) of ±1: the slots of a step, by its bit and then by its state.

        The state is the bits before, the oldest as the highest binary digit.
        """
        newest, state = np.divmod(np.arange(2 * NUM_STATES), NUM_STATES)
        digits = np.arange(MEMORY_BITS + 1)[:, None]
        register, taps = (state << 1 | newest) >> digits & 1, np.array(self.polynomials) >> digits & 1
        return 2 * (taps.T @ register & 1).astype(np.float32) - 1

    @property
    def _scores_per_block(self) -> int:
        return 4 * len(self.generator) * NUM_STATES

    def _decode_blocks(self, llrs: NDArray[np.float32], prefix: NDArray[np.bool_]) -> NDArray[np.float32]:
        return self._forward_backward(llrs, prefix, None)

    def _marginalise(self, llrs: NDArray[np.float32], scale: NDArray[np.float32]) -> NDArray[np.float32]:
        return self._forward_backward(llrs, np.zeros((len(llrs), 0), bool), scale[:, None])

    def _forward_backward(
        self, llrs: NDArray[np.float32], prefix: NDArray[np.bool_], scale: NDArray[np.float32] | None
    ) -> NDArray[np.float32]:
        """Forward-backward recursion on the circle: max-log without a scale, BCJR with one of (blocks, 1, 1)."""
        blocks, bits, half = len(llrs), len(self.generator), NUM_STATES // 2
        steps = llrs.reshape(blocks, bits, -1)
        # (bits, blocks, 2, 2, half): branch metrics by the step's bit, by the oldest bit of the state, by the others.
        branches = (steps.transpose(1, 0, 2) @ self._signs).reshape(bits, blocks, 2, 2, half)
        for step, known in enumerate(prefix.T):
            branches[step, np.arange(blocks), (~known).astype(int)] = -np.inf
        turns = range(-(-MIN_TRELLIS_STEPS // bits))
        # Forward metrics of the states before each step. A step shifts the oldest bit out and the newest in as the
        # lowest digit, so the states after it are a view of the same array with its axes in another order.
        forward = np.zeros((bits, blocks, 2, half), np.float32)
        forward_next = forward.reshape(bits, blocks, half, 2).swapaxes(2, 3)
        paths = np.empty((blocks, 2, 2, half), np.float32)
        for _ in turns:
            for step in range(bits):
                np.add(forward[step, :, None], branches[step], out=paths)
                _logaddexp(paths[:, :, 0], paths[:, :, 1], scale, forward_next[(step + 1) % bits])
        backward = np.zeros((blocks, 2, half), np.float32)
        backward_next = backward.reshape(blocks, half, 2).swapaxes(1, 2)
        decoded = np.empty((blocks, bits), np.float32)
        for turn in turns:
            for step in reversed(range(bits)):
                np.add(branches[step], backward_next[:, :, None], out=paths)
                if turn == turns[-1]:
                    scores = logsumexp((forward[step, :, None] + paths).reshape(blocks, 2, NUM_STATES), scale)
                    decoded[:, step] = (scores[:, 1] - scores[:, 0]) / 2
                _logaddexp(paths[:, 0], paths[:, 1], scale, backward)
        return decoded


def logsumexp(values: NDArray[Real], scale: NDArray[Real] | float | None) -> NDArray[Real]:
    """(…, n) → (…): log Σ exp(scale · value) / scale; without a scale the maximum (max-log)."""
    total = values.max(-1, keepdims=True)
    if scale is not None:
        terms = np.exp(np.maximum(scale * (values - total), -NEGLIGIBLE_NATS))
        total += np.log(terms.sum(-1, keepdims=True)) / scale
    return np.asarray(total[..., 0])


def llr_scale(unit: NDArray[np.float64]) -> NDArray[np.float32]:
    """Nats of log-likelihood per unit of score, if LLRs were divided by `unit`."""
    return np.minimum(LLR_SCALE * unit, MAX_LLR_SCALE).astype(np.float32)


def clip_to_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    limit = np.finfo(np.float32).max
    return values.clip(-limit, limit).astype(np.float32)


def chernoff_log_p(values: NDArray[np.floating], word: Bits) -> float:
    """Bound the probability that one given word scores so high by chance.

    For random signs E exp(λ Σ ±v) = Π cosh(λ v), so P(score ≥ s) ≤ Π cosh(λ v) / exp(λ s) for every λ > 0; the least
    bound of 24 values of λ is taken. It holds for one word: add the logarithm of the number of words compared.

    Args:
        values: (…), soft values of slots, positive for 1.
        word: (…), zeros and ones.

    Returns:
        Natural logarithm of the bound, at most 0.
    """
    slots = np.asarray(values, np.float64).ravel()
    rms = np.sqrt(np.square(slots).mean())
    if not rms:
        return 0.0
    slots = slots / rms
    score = slots @ (2.0 * np.ravel(word) - 1)
    exponents = _CHERNOFF_LAMBDAS[:, None] * np.abs(slots)
    bounds = (np.logaddexp(exponents, -exponents) - log(2)).sum(-1) - _CHERNOFF_LAMBDAS * score
    return float(min(0.0, bounds.min()))


def _logaddexp(
    a: NDArray[np.float32], b: NDArray[np.float32], scale: NDArray[np.float32] | None, out: NDArray[np.float32]
) -> None:
    """The `logsumexp` of two arrays into a third."""
    np.maximum(a, b, out=out)
    if scale is not None:
        out += np.log(1 + np.exp(np.maximum(-scale * np.abs(a - b), -NEGLIGIBLE_NATS))) / scale
