"""Error-correcting codes: a message of few bits spread over all slots of a second, and read back from soft values.

A slot that was read with confidence counts for more than one that was guessed, so decoding starts from the
log-odds and not from zeros and ones. Small codes are compared with every code word there is. Large ones are
convolutional: every slot is a sum of a few neighbouring bits, the last of which are followed by the first again
(tail biting), and the likeliest way around that ring is looked for step by step (Viterbi's algorithm, both ways).
Some rounds make it close, or nearly always: of lost words of 46 bits one in eight, of those of 22 every other one fits
less well than the right one.

A part of the slots are the bits themselves. Where there is too little evidence for the right word, the wrong one has
at least these to go by, and fewer of its bits are wrong (docs/LOG.md, session 8).
"""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

VERSION = 2
"""Of codes and carriers: a mark is read by those that it was made with. (1 had block codes over 98 slots.)"""

MOST_LISTED_BITS = 12
"""Up to here every code word is compared; from here on their number is too great."""

MOST_LISTED_SLOTS = 128

MEMORY = 10
"""How many earlier bits a slot of a convolutional code can depend on."""

STATES = 1 << MEMORY

POLYNOMIALS = (
    0x6E5, 0x5FB, 0x59D, 0x5D1, 0x675, 0x6F9, 0x6C7, 0x7D5, 0x4D7,
    0x65F, 0x5DD, 0x72B, 0x7D3, 0x5CD, 0x657, 0x6F9, 0x7B5, 0x6A7,
)  # fmt: skip
"""Which bits a slot sums up, the newest as the lowest binary digit. Each was chosen, of 160 or more, for the distance
of the code of all up to it; two alone have 14, the best known for two."""

REPEATED_SHARE = 4
"""Of each so many slots for a bit of a convolutional code one is the bit itself."""

MOST_RATE = 24
"""Slots for each bit of a convolutional code, at most."""

USUAL_SLOTS = 540
"""About so many have the usual convolutional codes of 20 bits or more: each is seven tiles of a second. In 98, at
the same energy, the best code of 46 bits that we know needs a decibel more."""

TURNS = 9 * MEMORY
"""So many steps around the ring, in whole rounds, make decoding forget that it did not know where to begin."""

MOST_SUMS = 1 << 22
"""Sums that are held at a time; this bounds the memory."""

TIE = 1e-4
"""Share of the largest log-odds below which differences are rounding; a bit without evidence keeps this much."""

TRIALS, MOST_COMPARED = 64, 1_024
"""How rows of listed codes are chosen: out of so many, apart from so many sums of earlier ones."""


@dataclass(frozen=True, eq=False)
class BlockCode(ABC):
    """A binary linear code."""

    generator: NDArray[np.uint8]
    """(bits, slots) zeros and ones."""

    def encode(self, bits: NDArray[np.integer | np.bool_]) -> NDArray[np.uint8]:
        """(…, bits) zeros and ones → (…, slots) zeros and ones."""
        return np.asarray(bits).astype(np.uint8) @ self.generator & np.uint8(1)

    def fit(self, logits: NDArray[np.floating]) -> NDArray[np.float64]:
        """(…, slots) log-odds → (…): how much they say, in sum, for the likeliest word that was found."""
        return (np.asarray(logits, np.float64) * (2.0 * self.encode(self.decode(logits) > 0) - 1)).sum(-1)

    @abstractmethod
    def decode(
        self, logits: NDArray[np.floating], opening: NDArray[np.integer | np.bool_] | None = None
    ) -> NDArray[np.float32]:
        """(…, slots) log-odds, positive for 1 → (…, bits) log-odds; of which the first may be known, (…, known).

        A sign is the bit of the likeliest code word that was found; a magnitude how much likelier it is than
        the best one found in which that bit differs.
        """


class Plain(BlockCode):
    """No code: every slot is a bit."""

    def decode(
        self, logits: NDArray[np.floating], opening: NDArray[np.integer | np.bool_] | None = None
    ) -> NDArray[np.float32]:
        decoded = np.array(logits, np.float64)
        if opening is not None:
            decoded[..., : opening.shape[-1]] = np.where(opening, np.inf, -np.inf)
        return _finite(decoded)


class Searched(BlockCode):
    """A code whose words are compared."""

    def decode(
        self, logits: NDArray[np.floating], opening: NDArray[np.integer | np.bool_] | None = None
    ) -> NDArray[np.float32]:
        bits, slots = self.generator.shape
        blocks = np.shape(logits)[:-1]
        found = np.asarray(logits, np.float64).reshape(prod(blocks), slots)
        given = np.zeros((*blocks, 0), bool) if opening is None else np.asarray(opening, bool)
        known = given.reshape(len(found), given.shape[-1])
        # Sums of large finite values would not be finite, and only ratios matter to the search.
        largest = np.abs(found).max(-1, keepdims=True, initial=0)
        scale = np.where(largest > 0, largest, 1)
        shares = (found / scale).astype(np.float32)
        at_a_time = max(1, MOST_SUMS // self._sums)
        parts = [slice(first, first + at_a_time) for first in range(0, len(shares), at_a_time)]
        values = np.concatenate([np.empty((0, bits)), *(self._decoded(shares[part], known[part]) for part in parts)])
        sure = scale * np.maximum(np.abs(values), TIE)
        return _finite(np.where(np.signbit(values), -sure, sure)).reshape(*blocks, bits)

    @property
    @abstractmethod
    def _sums(self) -> int:
        """How many are held to decode a block."""

    @abstractmethod
    def _decoded(self, shares: NDArray[np.float32], opening: NDArray[np.bool_]) -> NDArray[np.float32]:
        """(blocks, slots) and (blocks, known) → (blocks, bits)."""


class Listed(Searched):
    """A code of which all words are compared."""

    @cached_property
    def _messages(self) -> NDArray[np.uint8]:
        return every_message(len(self.generator))

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


@dataclass(frozen=True, eq=False)
class Convolutional(Searched):
    """A tail-biting convolutional code: step by step around the ring of its bits, `rate` slots belong to each step."""

    polynomials: tuple[int, ...]

    @classmethod
    def of(cls, bits: int, rate: int) -> "Convolutional":
        repeated = rate // REPEATED_SHARE
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
                np.maximum(ways[:, :, 0], ways[:, :, 1], out=coming[(step + 1) % bits])
        after = np.zeros((blocks, 2, half), np.float32)
        came = after.reshape(blocks, half, 2).swapaxes(1, 2)
        found = np.empty((blocks, bits), np.float32)
        for turn in rounds:
            for step in reversed(range(bits)):
                np.add(gains[step], came[:, :, None], out=ways)
                if turn == rounds[-1]:
                    fits = (before[step, :, None] + ways).max((2, 3))
                    found[:, step] = (fits[:, 1] - fits[:, 0]) / 2
                np.maximum(ways[:, 0], ways[:, 1], out=after)
        return found


def every_message(bits: int) -> NDArray[np.uint8]:
    """(2^bits, bits): all messages, the first bit the slowest."""
    return (np.arange(1 << bits)[:, None] >> np.arange(bits)[::-1] & 1).astype(np.uint8)


def exists(bits: int, slots: int) -> bool:
    """Whether there is a code that carries `bits` bits in `slots` slots."""
    if bits == slots:
        return bits >= 0
    if 1 <= bits <= MOST_LISTED_BITS:
        return bits < slots <= MOST_LISTED_SLOTS
    return bits > 0 and slots % bits == 0 and 2 <= slots // bits <= MOST_RATE


def usual_slots(bits: int) -> int:
    """How many slots the code of so many bits has, where the carriers leave the choice."""
    if bits <= MOST_LISTED_BITS:
        return 10 * bits
    return bits * min(MOST_RATE, max(2, REPEATED_SHARE * round(USUAL_SLOTS / (REPEATED_SHARE * bits))))


@cache
def block_code(bits: int, slots: int) -> BlockCode:
    """The code that carries `bits` bits in `slots` slots; always the same one."""
    assert exists(bits, slots)
    if bits == slots:
        return Plain(np.eye(bits, dtype=np.uint8))
    if bits <= MOST_LISTED_BITS:
        return Listed(_spread(bits, slots))
    return Convolutional.of(bits, slots // bits)


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
