"""From soft values of seconds to a message, or to what is missing.

A word that passes its check is believed only if it also fits: the chance that values with random signs fit any word
that passes as well must be below `MESSAGE_P`. Signs are what a key draws (`carriers.py`), so this holds for any audio
without a mark of that key; and it holds however many words are tried, since all that pass are counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from ideaw.keys import PUBLIC
from ideaw.modem.fec import SHORT_RING_BITS, FecCode
from ideaw.payload.checks import WHOLE_BYTES, binary
from ideaw.payload.erasures import values_at
from ideaw.payload.framing import Block, LongLayout, Plan, long_layout, parse_body
from ideaw.payload.message import KIND_BITS, LONG, Message, layout

MESSAGE_P = 1e-4
"""The chance below which a word is believed, if values had nothing to do with any word that passes its check.

It is an upper bound: of a million random sums of seconds, about 4 are believed at 46 bits, 3 at 22 and fewer at 10, of
the 490, 2,000 and 125,000 that pass the check. (How often words fit was measured on 6,000 to 60,000 sums of Gaussian
noise; how often they pass was calculated.)
"""

CLEAR, CLEAR_OF_FEW = 0.6, 1.2
"""By how much a word must fit better than any other, in parts of what one of its bits weighs on average; the second
of words of fewer bits than SHORT_RING_BITS, which have more slots that are bits.

Where two copies were averaged, many words fit nearly as well as theirs: this leaves out three of four that neither copy
says (of 10 bits, nine of ten), and, in noise in which nine of ten seconds of a single copy can be read, one of these
nine (of 22 bits every twentieth more than 0.6 would).
"""

BLOCK_P = 1e-3
"""The same for a single part of a long message, which has a check over the whole besides."""

EARLY_STOP_P = 1e-9
"""The same, below which a message of one frame is taken without looking for a long one."""

REPEATED = 5.0
"""Standard deviations from which on seconds at a distance count as repetitions of each other."""

MOST_SECONDS = 512
"""Seconds that are decoded one by one, the strongest; this bounds the time to half a second of a CPU."""

MOST_NUMBERS, MOST_TRIALS = 2, 64
"""For how many numbers of blocks a long message is looked for, and how many sets of blocks are tried for each."""

LONG_CHANCE = 2 * MOST_NUMBERS * MOST_TRIALS / 2.0 ** (8 * WHOLE_BYTES)
"""At most this is the chance that blocks that do not belong together pass for a long message: 6 in 100 million."""

CUT = 5.0
"""Standard deviations by which seconds must fit better if there was a cut before them than if there was none."""

DISAGREES = 0.75
"""Share of the agreement with a word of its own below which a second does not say the message.

Two words of 46 bits agree by 0.75 at most if they differ at all; two messages differ in their checks too, so by less.
"""

HEARD = 1.0
"""Standard deviations by which a second must fit a word better than noise fits the best of all words."""

ROUNDING = 1e-3
"""Share by which margins that are the same may differ."""

_SLOPES = np.geomspace(0.05, 20, 24)


@dataclass(frozen=True, eq=False)
class Decoded:
    """What was read from some seconds."""

    message: Message | None
    """None if there is none that can be believed."""
    p_value: float
    """At most this is the chance that audio without the mark gives any message this way; 1 without a message."""
    missing_seconds: int
    """Further different seconds that a long message needs at least, once it was recognised as one; else 0."""
    payloads: NDArray[np.uint8] | None
    """(seconds, message_bits): what each second carries according to the message; None without one."""
    llrs: NDArray[np.float32]
    """(message_bits,) of the sum of all seconds, positive for 1."""

    def rows(self, first: int, last: int) -> "Decoded":
        """The same for the seconds from `first` to before `last` alone."""
        return replace(self, payloads=None if self.payloads is None else self.payloads[first:last])


def decode_seconds(
    values: NDArray[np.floating], code: FecCode, key: bytes = PUBLIC, repeated: Decoded | None = None
) -> Decoded:
    """Soft values (seconds, slots), positive for 1 and larger when surer, of seconds in their order → what they say.

    Seconds of a message that fits into one frame add up. Those of a long message are read one by one, and together
    where they repeat each other; they may be cut, in any order and partly unreadable, as long as enough are left.

    The average of two copies with different messages gives one of the two, or nothing, but for rare misreadings: a
    third one of one frame in up to 25 of a million averages at 46 bits, 22 at 22 and about 50 at 10 (the worst of five
    levels of noise; fits measured on 3,000 to 20,000 averages, checks taken to pass once in 2^check), and a long one
    with at most `LONG_CHANCE`.
    """
    rows = np.asarray(values, np.float64)
    bits, missing = len(code.generator), 0
    short = decode_repeated(values, code, key) if repeated is None else repeated
    parts = long_layout(bits)
    if parts is not None and short.p_value > EARLY_STOP_P:
        for each in (*_folded(rows, parts.most), rows):
            found = LongDecoder(each, code, parts, key).found()
            if isinstance(found, Message):
                carried = _carried(Plan.of(found, bits, key).period_payloads, rows, code)
                return Decoded(found, LONG_CHANCE, 0, carried, short.llrs)
            missing = min(filter(None, (missing, found)), default=0)
    return short if short.message is not None else replace(short, missing_seconds=missing)


def decode_repeated(values: NDArray[np.floating], code: FecCode, key: bytes = PUBLIC) -> Decoded:
    """What (seconds, slots) say if all seconds carry the same payload: their sum is decoded."""
    total = np.asarray(values, np.float64).sum(0)
    llrs = code.decode_word(total)
    bits = llrs > 0
    message, p_value = _short(total, llrs, code, key) or (None, 1.0)
    payloads = None if message is None else np.tile(bits.astype(np.uint8), (len(values), 1))
    return Decoded(message, p_value, 0, payloads, llrs)


def contradicts(values: NDArray[np.floating], frames: NDArray[np.integer], code: FecCode) -> NDArray[np.bool_]:
    """(seconds,): which soft values (seconds, slots) say something else than (seconds, bits).

    Seconds without values are taken to say what the nearest with values do. Those that say nothing do not disagree.
    """
    power = np.sqrt(np.square(values, dtype=np.float64).sum(1))
    heard = np.flatnonzero(power)
    if not len(heard):
        return np.zeros(len(values), bool)
    agreement = (values * (2.0 * code.encode(frames) - 1)).sum(1)[heard] / power[heard]
    # Only seconds that agree less than most do are worth decoding.
    other = agreement < DISAGREES * np.quantile(agreement, 0.75)
    own = code.word_score(np.asarray(values)[heard[other]]) / power[heard[other]]
    noise = sqrt(2 * log(2) * len(code.generator))
    other[other] = (agreement[other] < DISAGREES * own) & (own > noise + HEARD)
    nearest = np.searchsorted((heard[1:] + heard[:-1]) / 2, np.arange(len(values)))
    return np.asarray(other[nearest])


def _short(
    total: NDArray[np.float64], logits: NDArray[np.float32], code: FecCode, key: bytes
) -> tuple[Message, float] | None:
    """The message of one frame in a sum of seconds (slots,), and the chance of one that fits as well."""
    bits = logits > 0
    message = Message.decode(bits, key)
    word = code.encode(bits)
    clear = CLEAR if len(bits) >= SHORT_RING_BITS else CLEAR_OF_FEW
    if message is None or np.abs(logits).min() < clear * (total @ (2.0 * word - 1)) / len(bits):
        return None
    passing = len(bits) - layout(len(bits)).check
    p_value = exp(min(0.0, passing * log(2) + chernoff_log_p(total, word)))
    return (message, p_value) if p_value <= MESSAGE_P else None


def chernoff_log_p(values: NDArray[np.floating], word: NDArray[np.integer]) -> float:
    """Logarithm of the chance, or more, that values (…) with random signs agree as well with a word (…) of 0 and 1.

    Chernoff's bound: E exp(λ Σ ±v) is a product of cosh(λ v), and any λ > 0 bounds the chance; the best one is taken.
    """
    given = np.asarray(values, np.float64).ravel()
    scale = np.sqrt(np.square(given).mean())
    if not scale:
        return 0.0
    given = given / scale
    fit = given @ (2.0 * np.ravel(word) - 1)
    steps = _SLOPES[:, None] * np.abs(given)
    bounds = (np.logaddexp(steps, -steps) - log(2)).sum(-1) - _SLOPES * fit
    return float(min(0.0, bounds.min()))


def _likeliest(logits: NDArray[np.float32]) -> Iterator[NDArray[np.bool_]]:
    """The likeliest word (bits,) and the next one, for parts of long messages.

    Decoded magnitudes say by how much the best word in which a bit differs is less likely, so the runner-up differs
    in just those bits that share the least one. Where seven of ten seconds of 46 bits are readable or more, it is the
    right one for a fifth or more of the others. For messages of one frame it is of no use: it hardly ever fits so well
    as to be believed.
    """
    bits, sure = logits > 0, np.abs(logits)
    yield bits
    yield bits ^ (sure <= sure.min() * (1 + ROUNDING))


def _folded(rows: NDArray[np.float64], most: int) -> list[NDArray[np.float64]]:
    """(period, slots): the sum of the seconds that say the same, if seconds repeat with a period up to `most`."""
    count, slots = rows.shape
    periods = range(2, min(most, count - 1) + 1, 2)
    if not periods:
        return []
    # What all seconds have in common, as those of a monotonous message do, says nothing about a period.
    apart = rows - rows.mean(0)
    alike = _lagged(apart)
    spread = _lagged(np.square(apart).sum(-1, keepdims=True)).clip(0) / slots
    # Seconds are alike at every multiple of the period, and a multiple of it has fewer of these.
    sums = np.array([(alike[period::period].sum(), spread[period::period].sum()) for period in periods])
    scores = np.divide(sums[:, 0], np.sqrt(sums[:, 1]), out=np.zeros(len(sums)), where=sums[:, 1] > 0)
    if scores.max() < REPEATED:
        return []
    period = periods[scores.argmax()]
    return [np.pad(rows, ((0, -count % period), (0, 0))).reshape(-1, period, slots).sum(0)]


def _lagged(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """(seconds, …) → (seconds,): sums of products of all seconds with those so many later."""
    count = len(rows)
    spectrum = np.fft.rfft(rows, 2 * count, axis=0)
    return np.fft.irfft(np.square(np.abs(spectrum)).sum(-1), 2 * count)[:count]


def _carried(frames: NDArray[np.uint8], rows: NDArray[np.float64], code: FecCode) -> NDArray[np.uint8]:
    """(seconds, bits): which of the frames (period, bits) each second carries.

    The likeliest path through the seconds: one frame follows the other, except where there was a cut (Viterbi).
    """
    count, period = len(rows), len(frames)
    alike = rows @ (2.0 * code.encode(frames).T - 1) / np.sqrt(np.square(rows).sum() / count)
    follows = np.roll(np.arange(period), 1)
    came_from = np.empty((count, period), np.int64)
    best = np.zeros(period)
    for second in range(count):
        cut = best.max() - CUT > best[follows]
        came_from[second] = np.where(cut, best.argmax(), follows)
        best = np.where(cut, best.max() - CUT, best[follows]) + alike[second]
    path = [int(best.argmax())]
    for second in range(count - 1, 0, -1):
        path.append(int(came_from[second, path[-1]]))
    return frames[path[::-1]]


@dataclass(frozen=True)
class BlockCandidate:
    """A second that says to be a part of a long message."""

    second: int
    block: Block
    doubt: float
    """Logarithm of the chance that one would fit as well under the same number of blocks."""


class LongDecoder:
    """Seconds (seconds, slots) of what may be a long message."""

    def __init__(self, rows: NDArray[np.float64], code: FecCode, parts: LongLayout, key: bytes) -> None:
        self._rows, self._code, self._parts, self._key = rows, code, parts, key

    def found(self) -> Message | int:
        """The message; else how many more different seconds are needed, 0 if there is no sign of a long message."""
        agreeing: dict[int, list[BlockCandidate]] = {}
        for sighting in self._sightings():
            agreeing.setdefault(sighting.block.needed, []).append(sighting)
        # Sightings that are mere chance agree on nothing: each may be in any second, all share one number.
        doubts = {
            needed: log(self._parts.most) + sum(each.doubt + log(len(self._rows)) for each in sightings)
            for needed, sightings in agreeing.items()
        }
        missing = 0
        for needed in sorted(doubts, key=doubts.__getitem__)[:MOST_NUMBERS]:
            if doubts[needed] <= log(MESSAGE_P):
                blocks = self._blocks(agreeing[needed], needed)
                message = self._solved(blocks, needed)
                if message is not None:
                    return message
                missing = missing or max(1, needed - sum(doubt <= log(BLOCK_P) for doubt, _ in blocks))
        return missing

    def _sightings(self) -> Iterator[BlockCandidate]:
        """Seconds that can be read by themselves."""
        power = np.square(self._rows).sum(-1)
        strongest = np.sort(np.argsort(-power, kind="stable")[:MOST_SECONDS])
        passing = self._parts.index + 8 * self._parts.size
        for second, logits in zip(strongest, self._code.decode_word(self._rows[strongest]), strict=True):
            for bits in _likeliest(logits):
                block = self._parts.decode_block(bits, self._key)
                if block is not None:
                    doubt = passing * log(2) + chernoff_log_p(self._rows[second], self._code.encode(bits))
                    if doubt <= log(BLOCK_P):
                        yield BlockCandidate(int(second), block, doubt)
                    break

    def _blocks(self, sightings: list[BlockCandidate], needed: int) -> list[tuple[float, Block]]:
        """Every block that can be read, with its doubt, the surest first."""
        found: dict[int, tuple[float, Block]] = {}
        for each in sightings:
            if each.block.index not in found or each.doubt < found[each.block.index][0]:
                found[each.block.index] = each.doubt, each.block
        places = _places(sightings, self._parts.period(needed), len(self._rows))
        indices = np.unique(places[places >= 0])
        sums = np.stack([self._rows[places == index].sum(0) for index in indices])
        for index, doubt, block in self._together(indices, sums):
            if block.needed == needed and (index not in found or doubt < found[index][0]):
                found[index] = doubt, block
        return sorted(found.values(), key=lambda each: each[0])

    def _together(self, indices: NDArray[np.int64], sums: NDArray[np.float64]) -> Iterator[tuple[int, float, Block]]:
        """What sums of seconds (indices, slots) say of which it is known which blocks they are."""
        openings = np.stack([np.append(binary(LONG, KIND_BITS), binary(index, self._parts.index)) for index in indices])
        for index, value, logits in zip(indices, sums, self._code.decode_word(sums, openings), strict=True):
            for bits in _likeliest(logits):
                block = self._parts.decode_block(bits, self._key)
                if block is not None:
                    doubt = 8 * self._parts.size * log(2) + chernoff_log_p(value, self._code.encode(bits))
                    yield int(index), doubt, block

    def _solved(self, blocks: list[tuple[float, Block]], needed: int) -> Message | None:
        """The message of which any `needed` blocks are right; the surest are tried first."""
        points = np.array([block.index for _, block in blocks])
        data = np.array([list(block.data) for _, block in blocks], np.uint8)
        for chosen in islice(combinations(range(min(len(blocks), needed + 2)), needed), MOST_TRIALS):
            body = values_at(np.arange(needed), points[list(chosen)], data[list(chosen)])
            message = parse_body(body.tobytes(), len(self._code.generator), self._key)
            if message is not None:
                return message
        return None


def _places(sightings: list[BlockCandidate], period: int, count: int) -> NDArray[np.int64]:
    """(seconds,): the index of each second's block, from the nearest sightings on both sides; −1 if they disagree."""
    seconds = np.array([each.second for each in sightings])
    shifts = np.array([each.block.index for each in sightings]) - seconds
    every = np.arange(count)
    after = np.searchsorted(seconds, every)
    before = np.searchsorted(seconds, every, side="right") - 1
    last = len(seconds) - 1
    # Before the first sighting and after the last one there is but one side.
    earlier = (every + shifts[np.where(before < 0, 0, before)]) % period
    later = (every + shifts[np.where(after > last, last, after)]) % period
    return np.where(earlier == later, earlier, -1)
