"""Error-correcting codes: a message of few bits spread over all slots of a second, and read back from soft values.

A slot that was read with confidence counts for more than one that was guessed, so decoding starts from the
log-odds and not from zeros and ones. Small codes are compared with every code word there is. Large ones are
convolutional: every slot is a sum of a few neighbouring bits, the last of which are followed by the first again
(tail biting), and the likeliest way around that ring is looked for step by step (Viterbi's algorithm, both ways).
Some rounds make it close, or nearly always: of lost words of 46 bits one in eight, of those of 22 every other one fits
less well than the right one.

The likeliest word is what a message needs that counts only as a whole. Where each bit counts, every word has a say in
it, as far as it is likely: on the same way around the ring words are added up instead of compared (BCJR).

A part of the slots are the bits themselves. Where there is too little evidence for the right word, the wrong one has
at least these to go by, and fewer of its bits are wrong (docs/LOG.md, session 8).
"""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Real = TypeVar("Real", bound=np.floating)

FORMAT_VERSION = 4
"""Of codes and carriers: a mark is read by those that it was made with.

1 had block codes over 98 slots, 2 tiles of one length, 3 the code of 10+10 in all slots of its messages.
"""

MOST_LISTED_BITS = 12
"""Up to here every code word is compared; from here on their number is too great."""

MOST_LISTED_SLOTS = 640

MEMORY = 10
"""How many earlier bits a slot of a convolutional code can depend on."""

STATES = 1 << MEMORY

POLYNOMIALS = (
    0x6E5, 0x5FB, 0x59D, 0x5D1, 0x675, 0x6F9, 0x6C7, 0x7D5, 0x4D7,
    0x65F, 0x5DD, 0x72B, 0x7D3, 0x5CD, 0x657, 0x6F9, 0x7B5, 0x6A7,
)  # fmt: skip
"""Which bits a slot sums up, the newest as the lowest binary digit. Each was chosen, of 160 or more, for the distance
of the code of all up to it; two alone have 14, the best known for two."""

SHORT_RING = 3 * MEMORY
"""Of fewer bits more slots are the bits themselves: what fits best is not always found there, so it costs no words."""

MOST_RATE = 24
"""Slots for each bit of a convolutional code, at most."""

USUAL_SLOTS = 540
"""About so many have the usual codes: each is five tiles of a second. In 98, at the same energy, the best code of 46
bits that we know needs a decibel more."""

TURNS = 9 * MEMORY
"""So many steps around the ring, in whole rounds, make decoding forget that it did not know where to begin."""

MOST_SUMS = 1 << 22
"""Sums that are held at a time; this bounds the memory."""

TIE = 1e-4
"""Share of the largest log-odds below which differences are rounding; a bit without evidence keeps this much."""

LLR_SCALE = 0.5
"""By how many nats a word becomes likelier for each unit of its sum; a half takes log-odds as what they claim to be."""

FAR = 40.0
"""What is less likely than something else by so many nats adds nothing to it."""

SHARPEST = 1e20
"""More than this is as good as comparing, and would no longer be finite."""

TRIALS, MOST_COMPARED = 64, 1_024
"""How rows of listed codes are chosen: out of so many, apart from so many sums of earlier ones."""


@dataclass(frozen=True, eq=False)
class FecCode(ABC):
    """A binary linear code."""

    generator: NDArray[np.uint8]
    """(bits, slots) zeros and ones."""

    def encode(self, bits: NDArray[np.integer | np.bool_]) -> NDArray[np.uint8]:
        """(…, bits) zeros and ones → (…, slots) zeros and ones."""
        return np.asarray(bits).astype(np.uint8) @ self.generator & np.uint8(1)

    def word_score(self, logits: NDArray[np.floating]) -> NDArray[np.float64]:
        """(…, slots) log-odds → (…): how much they say, in sum, for the likeliest word that was found."""
        return (np.asarray(logits, np.float64) * (2.0 * self.encode(self.decode_word(logits) > 0) - 1)).sum(-1)

    @abstractmethod
    def decode_word(
        self, logits: NDArray[np.floating], opening: NDArray[np.integer | np.bool_] | None = None
    ) -> NDArray[np.float32]:
        """(…, slots) log-odds, positive for 1 → (…, bits) log-odds; of which the first may be known, (…, known).

        A sign is the bit of the likeliest code word that was found; a magnitude how much likelier it is than
        the best one found in which that bit differs.
        """

    @abstractmethod
    def bit_llrs(self, logits: NDArray[np.floating]) -> NDArray[np.float32]:
        """(…, slots) log-odds, positive for 1 → (…, bits) log-odds, where all words have a say in each bit.

        More bits are right than in the likeliest word, but they need not belong to one word that fits.
        """

    def log_evidence(self, logits: NDArray[np.floating]) -> NDArray[np.float64]:
        """(…, slots) log-odds → (…): the `fit` of all words together or, of too many words, of the likeliest."""
        return self.word_score(logits)


class Uncoded(FecCode):
    """No code: every slot is a bit."""

    def decode_word(
        self, logits: NDArray[np.floating], opening: NDArray[np.integer | np.bool_] | None = None
    ) -> NDArray[np.float32]:
        decoded = np.array(logits, np.float64)
        if opening is not None:
            decoded[..., : opening.shape[-1]] = np.where(opening, np.inf, -np.inf)
        return _finite(decoded)

    def bit_llrs(self, logits: NDArray[np.floating]) -> NDArray[np.float32]:
        return self.decode_word(logits)


class SoftCode(FecCode):
    """A code whose words are compared."""

    def decode_word(
        self, logits: NDArray[np.floating], opening: NDArray[np.integer | np.bool_] | None = None
    ) -> NDArray[np.float32]:
        blocks = np.shape(logits)[:-1]
        given = np.zeros((*blocks, 0), bool) if opening is None else np.asarray(opening, bool)
        known = given.reshape(prod(blocks), given.shape[-1])
        shares, scale = self._shares(logits, 0)
        values = [self._decoded(shares[part], known[part]) for part in self._parts(shares)]
        return self._sure(values, scale).reshape(*blocks, len(self.generator))

    def bit_llrs(self, logits: NDArray[np.floating]) -> NDArray[np.float32]:
        # Sums of words depend on the scale: what is small is not made larger, or rounding would be made so too.
        shares, scale = self._shares(logits, 1)
        values = [self._summed(shares[part], _sharpness(scale[part])) for part in self._parts(shares)]
        return self._sure(values, scale).reshape(*np.shape(logits)[:-1], len(self.generator))

    def _shares(self, logits: NDArray[np.floating], least: float) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """(…, slots) → (blocks, slots) in units of the largest of a block if it is over `least`, and (blocks, 1) these.

        Sums of large finite values would not be finite.
        """
        found = np.asarray(logits, np.float64).reshape(prod(np.shape(logits)[:-1]), self.generator.shape[1])
        largest = np.abs(found).max(-1, keepdims=True, initial=0)
        scale = np.where(largest > least, largest, 1)
        return (found / scale).astype(np.float32), scale

    def _parts(self, shares: NDArray[np.float32]) -> list[slice]:
        """Blocks whose sums are held at a time."""
        at_a_time = max(1, MOST_SUMS // self._sums)
        return [slice(first, first + at_a_time) for first in range(0, len(shares), at_a_time)]

    def _sure(self, parts: list[NDArray[np.float32]], scale: NDArray[np.float64]) -> NDArray[np.float32]:
        """Values of all parts, in their units → (blocks, bits) log-odds of which none is 0."""
        values = np.concatenate([np.empty((0, len(self.generator))), *parts])
        sure = scale * np.maximum(np.abs(values), TIE)
        return _finite(np.where(np.signbit(values), -sure, sure))

    @property
    @abstractmethod
    def _sums(self) -> int:
        """How many are held to decode a block."""

    @abstractmethod
    def _decoded(self, shares: NDArray[np.float32], opening: NDArray[np.bool_]) -> NDArray[np.float32]:
        """(blocks, slots) and (blocks, known) → (blocks, bits)."""

    @abstractmethod
    def _summed(self, shares: NDArray[np.float32], sharpness: NDArray[np.float32]) -> NDArray[np.float32]:
        """(blocks, slots) and (blocks, 1), as `logsumexp` has it → (blocks, bits)."""


class ExhaustiveCode(SoftCode):
    """A code of which all words are compared."""

    @cached_property
    def _messages(self) -> NDArray[np.uint8]:
        return all_words(len(self.generator))

    @cached_property
    def _words(self) -> NDArray[np.float32]:
        """(2^bits, slots): their code words as 1 for 1 and −1 for 0."""
        return 2 * self.encode(self._messages).astype(np.float32) - 1

    @property
    def _sums(self) -> int:
        return len(self._words)

    def _decoded(self, shares: NDArray[np.float32], opening: NDArray[np.bool_]) -> NDArray[np.float32]:
        known = opening.shape[1]
        sums = shares @ self._words.T
        possible = (self._messages[:, :known] == opening[:, None]).all(-1)
        sums = np.where(possible, sums, -np.inf)
        best = self._messages[sums.argmax(-1)]
        same = (self._messages[:, bit] == best[:, bit, None] for bit in range(best.shape[1]))
        rivals = np.stack([np.where(words, -np.inf, sums).max(-1) for words in same], -1)
        margins = (sums.max(-1, keepdims=True) - rivals) / 2
        return np.where(best, margins, -margins)

    def _summed(self, shares: NDArray[np.float32], sharpness: NDArray[np.float32]) -> NDArray[np.float32]:
        return bit_llrs_of_words(shares @ self._words.T, sharpness)

    def log_evidence(self, logits: NDArray[np.floating]) -> NDArray[np.float64]:
        shares, scale = self._shares(logits, 1)
        parts = [logsumexp(shares[part] @ self._words.T, _sharpness(scale[part])) for part in self._parts(shares)]
        return (np.concatenate([np.empty(0), *parts]) * scale[:, 0]).reshape(np.shape(logits)[:-1])


@dataclass(frozen=True, eq=False)
class TailBitingCode(SoftCode):
    """A tail-biting convolutional code: step by step around the ring of its bits, `rate` slots belong to each step."""

    polynomials: tuple[int, ...]

    @classmethod
    def of(cls, bits: int, rate: int) -> "TailBitingCode":
        repeated = rate // (3 if bits < SHORT_RING else 4)
        polynomials = (1,) * repeated + POLYNOMIALS[: rate - repeated]
        # Row 0: what the first bit adds to the slots of its own step and of the ones after it.
        first = np.zeros((bits, rate), np.uint8)
        for later in range(MEMORY + 1):
            first[later % bits] ^= np.array([polynomial >> later & 1 for polynomial in polynomials], np.uint8)
        return cls(np.stack([np.roll(first, step, 0).ravel() for step in range(bits)]), polynomials)

    @cached_property
    def _signs(self) -> NDArray[np.float32]:
        """(rate, 2 · STATES): what each slot of a step is, 1 or −1, by the bit of that step and the ones before it.

        Of those before, which are the state, the oldest is the highest binary digit.
        """
        newest, state = np.divmod(np.arange(2 * STATES), STATES)
        digits = np.arange(MEMORY + 1)[:, None]
        seen, summed = (state << 1 | newest) >> digits & 1, np.array(self.polynomials) >> digits & 1
        return 2 * (summed.T @ seen & 1).astype(np.float32) - 1

    @property
    def _sums(self) -> int:
        return 4 * len(self.generator) * STATES

    def _decoded(self, shares: NDArray[np.float32], opening: NDArray[np.bool_]) -> NDArray[np.float32]:
        return self._around(shares, opening, None)

    def _summed(self, shares: NDArray[np.float32], sharpness: NDArray[np.float32]) -> NDArray[np.float32]:
        return self._around(shares, np.zeros((len(shares), 0), bool), sharpness[:, None])

    def _around(
        self, shares: NDArray[np.float32], opening: NDArray[np.bool_], sharpness: NDArray[np.float32] | None
    ) -> NDArray[np.float32]:
        """The bits of the likeliest way around the ring or, with a (blocks, 1, 1) sharpness, of all ways together."""
        blocks, bits, half = len(shares), len(self.generator), STATES // 2
        steps = shares.reshape(blocks, bits, -1)
        # (bits, blocks, 2, 2, half): what speaks for each value of a step's bit, by the oldest bit and the others.
        gains = (steps.transpose(1, 0, 2) @ self._signs).reshape(bits, blocks, 2, 2, half)
        for step, known in enumerate(opening.T):
            gains[step, np.arange(blocks), (~known).astype(int)] = -np.inf
        rounds = range(-(-TURNS // bits))
        # What speaks for each state before a step. After it the oldest bit is forgotten, and the newest becomes the
        # lowest binary digit: what comes next is the same array in another order.
        before = np.zeros((bits, blocks, 2, half), np.float32)
        coming = before.reshape(bits, blocks, half, 2).swapaxes(2, 3)
        ways = np.empty((blocks, 2, 2, half), np.float32)
        for _ in rounds:
            for step in range(bits):
                np.add(before[step, :, None], gains[step], out=ways)
                _either(ways[:, :, 0], ways[:, :, 1], sharpness, coming[(step + 1) % bits])
        after = np.zeros((blocks, 2, half), np.float32)
        came = after.reshape(blocks, half, 2).swapaxes(1, 2)
        found = np.empty((blocks, bits), np.float32)
        for turn in rounds:
            for step in reversed(range(bits)):
                np.add(gains[step], came[:, :, None], out=ways)
                if turn == rounds[-1]:
                    fits = logsumexp((before[step, :, None] + ways).reshape(blocks, 2, STATES), sharpness)
                    found[:, step] = (fits[:, 1] - fits[:, 0]) / 2
                _either(ways[:, 0], ways[:, 1], sharpness, after)
        return found


def all_words(bits: int) -> NDArray[np.uint8]:
    """(2^bits, bits): all messages, the first bit the slowest."""
    return (np.arange(1 << bits)[:, None] >> np.arange(bits)[::-1] & 1).astype(np.uint8)


def logsumexp(values: NDArray[Real], sharpness: NDArray[Real] | float | None) -> NDArray[Real]:
    """(…, n) → (…): log Σ exp(sharpness · value) / sharpness; without a sharpness the largest value."""
    summed = values.max(-1, keepdims=True)
    if sharpness is not None:
        weights = np.exp(np.maximum(sharpness * (values - summed), -FAR))
        summed += np.log(weights.sum(-1, keepdims=True)) / sharpness
    return summed[..., 0]


def bit_llrs_of_words(sums: NDArray[Real], sharpness: NDArray[Real] | float) -> NDArray[Real]:
    """(blocks, 2^bits), how `all_words` fits → (blocks, bits) log-odds, where all have a say in each bit."""
    blocks, messages = sums.shape
    bits = messages.bit_length() - 1
    said = np.empty((blocks, bits), sums.dtype)
    for bit in range(bits):
        values = sums.reshape(blocks, 1 << bit, 2, -1)
        zero, one = (logsumexp(values[:, :, value].reshape(blocks, -1), sharpness) for value in (0, 1))
        said[:, bit] = (one - zero) / 2
    return said


def fec_exists(bits: int, slots: int) -> bool:
    """Whether there is a code that carries `bits` bits in `slots` slots."""
    if bits == slots:
        return bits >= 0
    if 1 <= bits <= MOST_LISTED_BITS:
        return bits < slots <= MOST_LISTED_SLOTS
    return bits > 0 and slots % bits == 0 and 2 <= slots // bits <= MOST_RATE


def usual_slots(bits: int) -> int:
    """How many slots the code of so many bits has, where the carriers leave the choice."""
    if bits <= MOST_LISTED_BITS:
        return bits * (USUAL_SLOTS // bits) if bits else 0
    # Fours, so that a quarter of them can be the bits themselves.
    return bits * min(MOST_RATE, max(2, 4 * round(USUAL_SLOTS / (4 * bits))))


@cache
def fec_code(bits: int, slots: int) -> FecCode:
    """The code that carries `bits` bits in `slots` slots; always the same one."""
    assert fec_exists(bits, slots)
    if bits == slots:
        return Uncoded(np.eye(bits, dtype=np.uint8))
    if bits <= MOST_LISTED_BITS:
        return ExhaustiveCode(_spread(bits, slots))
    return TailBitingCode.of(bits, slots // bits)


def _sharpness(scale: NDArray[np.float64]) -> NDArray[np.float32]:
    """By how many nats a word becomes likelier for each unit of its sum, if the unit is `scale`."""
    return np.minimum(LLR_SCALE * scale, SHARPEST).astype(np.float32)


def _either(
    one: NDArray[np.float32],
    other: NDArray[np.float32],
    sharpness: NDArray[np.float32] | None,
    out: NDArray[np.float32],
) -> None:
    """The `logsumexp` of two into a third."""
    np.maximum(one, other, out=out)
    if sharpness is not None:
        out += np.log(1 + np.exp(np.maximum(-sharpness * np.abs(one - other), -FAR))) / sharpness


def _finite(values: NDArray[np.float64]) -> NDArray[np.float32]:
    limit = np.finfo(np.float32).max
    return values.clip(-limit, limit).astype(np.float32)


def _spread(bits: int, slots: int) -> NDArray[np.uint8]:
    """(bits, slots): half the slots, or one for each bit, are bits; the others are sums of them.

    Row after row of these is the one of `TRIALS` that is furthest from sums of those before it.
    """
    times = max(1, slots // (2 * bits))
    width = slots - times * bits
    tails, sums, used = np.empty((0, width), np.uint8), np.zeros((1, width), np.uint8), np.zeros(1, np.int64)
    for row in range(bits):
        label = f"ideaw block code {bits} {slots} {row}".encode()
        stream = hashlib.shake_256(label).digest(TRIALS * MOST_LISTED_SLOTS // 8)
        trials = np.unpackbits(np.frombuffer(stream, np.uint8)).reshape(TRIALS, -1)[:, :width]
        trials[0] = 1
        signs = 1 - 2 * trials.astype(np.float32)
        apart = (width - (signs @ (1 - 2 * sums.astype(np.float32)).T).astype(np.int64)) // 2 + used + times
        least = apart.min(-1)
        tail = trials[(least * apart.size - (apart == least[:, None]).sum(-1)).argmax()]
        tails = np.concatenate([tails, tail[None]])
        new = len(sums) if len(sums) < MOST_COMPARED else 1
        sums, used = np.concatenate([sums, sums[:new] ^ tail]), np.concatenate([used, used[:new] + times])
    return np.concatenate([np.tile(np.eye(bits, dtype=np.uint8), times), tails], -1)
