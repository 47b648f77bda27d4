"""Block codes: a message of few bits spread over all slots of a second, and read back from soft values.

A slot that was read with confidence counts for more than one that was guessed, so decoding starts from the
log-odds and not from zeros and ones. Small codes are compared with every code word there is; large ones are
searched around the slots that are surest (ordered-statistics decoding), which comes close to the same.
"""

import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

MOST_SLOTS = 128

MOST_LISTED_BITS = 12
"""Up to here every code word is compared; from here on their number is too great."""

MOST_PATTERNS = 1_600
"""Patterns of up to two wrong slots, beyond which they are joined with single slots only and not with each other."""

EVEN = 0.5
"""Slots outside a basis that are, on average, this share as sure as those in it may make up a better one."""

MOST_SUMS = 1 << 22
"""Code words times blocks that are compared at a time; this bounds the memory."""

TIE = 1e-4
"""Share of the largest log-odds below which differences are rounding; a bit without evidence keeps this much."""

TRIALS, MOST_COMPARED = 64, 1_024
"""How rows of codes without a construction are chosen: out of so many, apart from so many sums of earlier ones."""


@dataclass(frozen=True)
class _Circulants:
    """A quasi-cyclic code: all `size` shifts of its polynomials side by side, the lowest power first."""

    size: int
    polynomials: tuple[int, ...]
    distance: int


_FOUND = {
    (56, 120): _Circulants(64, (0x1, 0xBE7DCA23579B9F93), 20),
    (46, 98): _Circulants(52, (0x1, 0x9AB87D52D8DB), 20),
    (22, 98): _Circulants(51, (0x33EC2BD, 0x54295AB87B74), 32),
    (10, 98): _Circulants(11, (0x3, 0x2C1, 0x14F, 0x381, 0x67D, 0x75B, 0x7B0, 0xB1, 0x521), 43),
    (10, 32): _Circulants(11, (0x1, 0x247, 0x625), 11),
}
"""(bits, slots) → the code from which it is shortened, and the least distance of what is left.

(46, 98) is the extended quadratic-residue code [104, 52, 20] of 103, its places in the order of an element of
PSL(2, 103) that has two cycles of 52. All weights are multiples of 4, and listing every word with up to 8 ones in
either half found none below 20. (56, 120) is made in the same way from that of 127, [128, 64, 20]. The others are the
best of millions of random polynomials, by distance and then by the fewest words at it, counted over all words:
[102, 26, 32] shortened by four, [99, 10, 44] less its last slot, and [33, 11, 11] shortened by one. The union bound
of this last is 4 to 9 % below that of the best [32, 10, 12] in the extended BCH code, at 2 to 5 dB.
"""


@dataclass(frozen=True, eq=False)
class BlockCode:
    """A systematic binary linear code: the first slots are the bits themselves, the others sums of them."""

    generator: NDArray[np.uint8]
    """(bits, slots) zeros and ones."""

    distance: int
    """Any two code words differ in so many slots at least."""

    def encode(self, bits: NDArray[np.integer | np.bool_]) -> NDArray[np.uint8]:
        """(…, bits) zeros and ones → (…, slots) zeros and ones."""
        return np.asarray(bits).astype(np.uint8) @ self.generator & np.uint8(1)

    def decode(self, logits: NDArray[np.floating]) -> NDArray[np.float32]:
        """(…, slots) log-odds, positive for 1 → (…, bits) log-odds.

        A sign is the bit of the likeliest code word that was found; a magnitude how much likelier it is than
        the best one found in which that bit differs.
        """
        bits, slots = self.generator.shape
        found = np.asarray(logits, np.float64).reshape(prod(np.shape(logits)[:-1]), slots)
        if bits < slots:
            # Sums of large finite values would not be finite, and only ratios matter to the search.
            largest = np.abs(found).max(-1, keepdims=True, initial=0)
            scale = np.where(largest > 0, largest, 1)
            shares = (found / scale).astype(np.float32)
            found = scale * (self._listed(shares) if bits <= MOST_LISTED_BITS else self._searched(shares))
        limit = np.finfo(np.float32).max
        return found.clip(-limit, limit).astype(np.float32).reshape(*np.shape(logits)[:-1], bits)

    @cached_property
    def _messages(self) -> NDArray[np.uint8]:
        return every_message(len(self.generator))

    @cached_property
    def _words(self) -> NDArray[np.float32]:
        """(2^bits, slots): their code words as 1 for 1 and −1 for 0."""
        return 2 * self.encode(self._messages).astype(np.float32) - 1

    def _listed(self, shares: NDArray[np.float32]) -> NDArray[np.float64]:
        """(blocks, slots) → (blocks, bits), by comparing all code words."""
        at_a_time = max(1, MOST_SUMS // len(self._words))
        found = [np.empty((0, len(self.generator)))]
        for start in range(0, len(shares), at_a_time):
            sums = shares[start : start + at_a_time] @ self._words.T
            signs = 2.0 * self._messages[sums.argmax(-1)] - 1
            halves = [
                sums.reshape(len(sums), 1 << bit, 2, -1).max((1, 3)) @ (-0.5, 0.5) for bit in range(signs.shape[1])
            ]
            found.append(signs * np.maximum(np.abs(np.stack(halves, -1)), TIE))
        return np.concatenate(found)

    @cached_property
    def _patterns(self) -> NDArray[np.intp]:
        """(2, patterns): the wrong slots of a basis, none, one or two; `bits` stands for none."""
        bits = len(self.generator)
        return np.array([(bits, bits), *((one, bits) for one in range(bits)), *combinations(range(bits), 2)]).T

    def _searched(self, shares: NDArray[np.float32]) -> NDArray[np.float64]:
        """(blocks, slots) → (blocks, bits), each by a search around its surest slots."""
        return np.array([self._search(block) for block in shares], np.float64).reshape(-1, len(self.generator))

    def _search(self, share: NDArray[np.float32]) -> NDArray[np.float32]:
        """(slots,) → (bits,), around the surest basis and, where no slots are surer than others, further ones."""
        bits, slots = self.generator.shape
        order = np.argsort(-np.abs(share), kind="stable")
        found = []
        for _ in range(slots // bits):
            fit, values, basis, settled = self._around(order, share)
            found.append((fit, values))
            if settled:
                break
            unused = np.isin(order, basis, invert=True)
            order = np.concatenate([order[unused], order[~unused]])
        return max(found, key=lambda each: each[0])[1]

    def _around(
        self, order: NDArray[np.intp], share: NDArray[np.float32]
    ) -> tuple[float, NDArray[np.float32], NDArray[np.intp], bool]:
        """The best word near to what a basis says: how well it fits, (bits,) values, the basis, whether that is all.

        The basis is the first slots in `order` that determine a message. Messages in which up to two of them are
        wrong are tried first; those with up to four only where a better one than the best of these can exist.
        """
        bits, slots = self.generator.shape
        rows = _unpacked(_reduced(_packed(self.generator[:, order])), slots)
        basis = rows.argmax(-1)
        columns = np.concatenate([basis, np.delete(np.arange(slots), basis)])
        places = order[columns]
        # From here on 1 stands for 0 and −1 for 1, so that sums are products, and slots are in this order.
        evidence = -share[places]
        signs = np.ones((bits + 1, slots), np.float32)
        signs[:bits] -= 2 * rows[:, columns]
        said = np.where(evidence[:bits, None] < 0, signs[:bits], 1).prod(0)

        message = np.argsort(places)[:bits]
        one, two = self._patterns
        flipped = signs[:, message] < 0
        differs = flipped[one] ^ flipped[two]
        word, fits = self._climb(said, signs, evidence)
        settled = self._is_best(word, evidence, 2)
        if not settled:
            partners = len(one) if len(one) <= MOST_PATTERNS else bits + 1
            partner, far = self._joined(said, signs, evidence, partners)
            best = [far.argmax(), partner[far.argmax()]]
            if far[best[0]] > fits[0] + TIE:
                word, fits = self._climb(said * signs[self._patterns[:, best]].prod((0, 1)), signs, evidence)
            differs = np.concatenate([differs, differs ^ differs[partner] ^ (said != word)[message]])
            fits = np.concatenate([fits, far])
            surer = np.abs(evidence[bits:]).mean() < EVEN * np.abs(evidence[:bits]).mean()
            settled = bool(surer) or self._is_best(word, evidence, 4 if partners > bits + 1 else 3)
        # Every slot is a sum of slots of the basis, so some pattern flips it and no bit is without a rival.
        rivals = np.where(differs, fits[:, None], -np.inf).max(0)
        margins: NDArray[np.float32] = np.maximum((fits[0] - rivals) / 2, TIE)
        return float(fits[0]), np.where(word[message] < 0, margins, -margins), places[:bits], settled

    def _climb(
        self, word: NDArray[np.float32], signs: NDArray[np.float32], evidence: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """From a word to one that no pattern betters, and how well (patterns,) of that one fit, itself first."""
        one, two = self._patterns
        while True:
            fits = ((signs * (word * evidence)) @ signs.T)[one, two]
            best = fits.argmax()
            if fits[best] <= fits[0] + TIE:
                return word, fits
            word = word * signs[one[best]] * signs[two[best]]

    def _joined(
        self, word: NDArray[np.float32], signs: NDArray[np.float32], evidence: NDArray[np.float32], partners: int
    ) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """For each of (patterns,) the one of the first `partners` that is best joined with it, and how well both fit.

        They are patterns of `word`, in which no slot of the basis is wrong.
        """
        bits = len(self.generator)
        one, two = self._patterns
        flips = signs[one, bits:] * signs[two, bits:]
        # Prices of basis slots add up. Two patterns that share a slot seem to cost too much, but then a smaller
        # pattern equals their sum and stands in the list as well.
        prices = np.append(np.abs(evidence[:bits]), np.float32(0))
        own, each = -2 * prices[self._patterns].sum(0), np.ones(len(one), np.float32)
        left = np.column_stack([flips * (word * evidence)[bits:], own + prices.sum(), each])
        right = np.column_stack([flips, each, own])[:partners]
        fits = left @ right.T
        partner = fits.argmax(-1)
        return partner, fits[np.arange(len(one)), partner]

    def _is_best(self, word: NDArray[np.float32], evidence: NDArray[np.float32], tried: int) -> bool:
        """Whether no word with more than `tried` wrong basis slots can fit better than this one does.

        Such a word pays for those slots, and, as it differs from this one in `distance` slots, for the others of
        these in which this one is right.
        """
        prices = np.abs(evidence)
        wrong = word * evidence < 0
        more = max(0, self.distance - int(wrong.sum()) - tried - 1)
        least = np.sort(prices[: len(self.generator)])[: tried + 1].sum() + np.sort(prices[~wrong])[:more].sum()
        return bool(prices[wrong].sum() <= least)


def every_message(bits: int) -> NDArray[np.uint8]:
    """(2^bits, bits): all messages, the first bit the slowest."""
    return (np.arange(1 << bits)[:, None] >> np.arange(bits)[::-1] & 1).astype(np.uint8)


@cache
def block_code(bits: int, slots: int) -> BlockCode:
    """The code that carries `bits` bits in `slots` slots; always the same one."""
    assert 1 <= bits <= slots <= MOST_SLOTS or bits == slots == 0
    if (bits, slots) in _FOUND:
        found = _FOUND[bits, slots]
        return BlockCode(_shortened(found, bits, slots), found.distance)
    return BlockCode(_spread(bits, slots), 1)


def _shortened(code: _Circulants, bits: int, slots: int) -> NDArray[np.uint8]:
    """(bits, slots): words of the code that begin with zeros, without these, as far as there are slots."""
    powers = [[polynomial >> power & 1 for power in range(code.size)] for polynomial in code.polynomials]
    shifts = [np.roll(np.array(powers, np.uint8), shift, -1).ravel() for shift in range(code.size)]
    reduced = _reduced(_packed(np.stack(shifts)))
    left_out = len(reduced) - bits
    return _unpacked(reduced[left_out:], len(shifts[0]))[:, left_out : left_out + slots]


def _spread(bits: int, slots: int) -> NDArray[np.uint8]:
    """(bits, slots): row after row the one of `TRIALS` that is furthest from sums of those before it."""
    width = slots - bits
    tails, sums, used = np.empty((0, width), np.uint8), np.zeros((1, width), np.uint8), np.zeros(1, np.int64)
    for row in range(bits):
        stream = hashlib.shake_256(f"ideaw block code {bits} {slots} {row}".encode()).digest(TRIALS * MOST_SLOTS // 8)
        trials = np.unpackbits(np.frombuffer(stream, np.uint8)).reshape(TRIALS, -1)[:, :width]
        trials[0] = 1
        signs = 1 - 2 * trials.astype(np.float32)
        apart = (width - (signs @ (1 - 2 * sums.astype(np.float32)).T).astype(np.int64)) // 2 + used + 1
        least = apart.min(-1)
        tail = trials[(least * apart.size - (apart == least[:, None]).sum(-1)).argmax()]
        tails = np.concatenate([tails, tail[None]])
        new = len(sums) if len(sums) < MOST_COMPARED else 1
        sums, used = np.concatenate([sums, sums[:new] ^ tail]), np.concatenate([used, used[:new] + 1])
    return np.concatenate([np.eye(bits, dtype=np.uint8), tails], -1)


def _reduced(rows: list[int]) -> list[int]:
    """Rows over GF(2), the first column the highest bit → the same space in reduced echelon form.

    Python's integers, a row in each, are several times faster here than arrays of so few rows.
    """
    basis: list[int] = []
    for row in rows:
        for pivot in basis:
            row = changed if (changed := row ^ pivot) < row else row
        if row:
            basis = [changed if (changed := pivot ^ row) < pivot else pivot for pivot in basis]
            basis.append(row)
    return sorted(basis, reverse=True)


def _packed(rows: NDArray[np.uint8]) -> list[int]:
    """(rows, columns) zeros and ones → a row in each integer, zeros after its end up to whole bytes."""
    return [int.from_bytes(row.tobytes(), "big") for row in np.packbits(rows, -1)]


def _unpacked(rows: list[int], columns: int) -> NDArray[np.uint8]:
    """The inverse of `_packed`."""
    data = b"".join(row.to_bytes(-(-columns // 8), "big") for row in rows)
    return np.unpackbits(np.frombuffer(data, np.uint8).reshape(len(rows), -1), axis=-1, count=columns)
