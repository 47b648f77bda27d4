"""Decoding of messages that are spread over several seconds: blocks, their positions, and the erasure code.

Every second is decoded by itself (list decoding, list size 2). Blocks that agree on how many there are fix the phase of
the message at each second; seconds of the same block are then added up and decoded again, with its index known. Any
`needed` blocks give a body, which has a check of 32 bits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from math import log

import numpy as np
from numpy.typing import NDArray

from ideaw.engine.significance import BLOCK_P, MESSAGE_P
from ideaw.modem.fec import FecCode, chernoff_log_p
from ideaw.payload.erasures import values_at
from ideaw.payload.framing import BODY_CHECK_BYTES, Block, LongLayout, parse_body
from ideaw.payload.message import KIND_BITS, LONG_KIND, Message, to_bits

MIN_PERIOD_SIGMA = 5.0
"""Standard deviations of the autocorrelation from which on seconds count as periodic."""

MAX_DECODED_SECONDS = 512
"""Most seconds that are decoded one by one, the strongest; bounds the time to half a second of a CPU."""

MAX_BLOCK_COUNTS, MAX_BLOCK_SETS = 2, 64
"""Most hypotheses on the number of blocks, and most sets of blocks that are tried for each."""

LONG_TRIALS = 2 * MAX_BLOCK_COUNTS * MAX_BLOCK_SETS
"""Bodies whose checks are tried at most: with seconds folded by their period and as they are."""

LONG_MESSAGE_P = LONG_TRIALS / 2.0 ** (8 * BODY_CHECK_BYTES)
"""Bound on the probability that unrelated blocks pass for a long message: 6e-8."""

CUT_PENALTY_SIGMA = 5.0
"""Cost of a jump in the phase of the message, in standard deviations of a second's correlation."""

MARGIN_TOLERANCE = 1e-3
"""Relative difference below which two margins count as equal."""


@dataclass(frozen=True)
class BlockCandidate:
    """A second that decodes as a block of a long message.

    Attributes:
        second: Which one.
        block: What it carries.
        log_p: Natural logarithm of the bound over all words that pass with the same number of blocks.
    """

    second: int
    block: Block
    log_p: float


class LongDecoder:
    """Decoder of (seconds, slots) that may carry a long message."""

    def __init__(self, rows: NDArray[np.float64], fec: FecCode, blocks: LongLayout, key: bytes) -> None:
        self._rows, self._fec, self._layout, self._key = rows, fec, blocks, key

    def decode(self) -> Message | int:
        """The message; else how many more different blocks are needed, 0 if nothing hints at a long message."""
        by_count: dict[int, list[BlockCandidate]] = {}
        for candidate in self._candidates():
            by_count.setdefault(candidate.block.needed, []).append(candidate)
        # False candidates agree on nothing. Union bound: any second for each, any number of blocks for all together.
        joint_log_p = {
            needed: log(self._layout.max_blocks)
            + sum(candidate.log_p + log(len(self._rows)) for candidate in candidates)
            for needed, candidates in by_count.items()
        }
        missing = 0
        for needed in sorted(joint_log_p, key=joint_log_p.__getitem__)[:MAX_BLOCK_COUNTS]:
            if joint_log_p[needed] <= log(MESSAGE_P):
                blocks = self._best_blocks(by_count[needed], needed)
                message = self._solve(blocks, needed)
                if message is not None:
                    return message
                missing = missing or max(1, needed - sum(log_p <= log(BLOCK_P) for log_p, _ in blocks))
        return missing

    def _candidates(self) -> Iterator[BlockCandidate]:
        """Seconds that can be decoded by themselves, in their order."""
        energy = np.square(self._rows).sum(-1)
        strongest = np.sort(np.argsort(-energy, kind="stable")[:MAX_DECODED_SECONDS])
        passing_bits = self._layout.index_bits + 8 * self._layout.data_bytes
        for second, llrs in zip(strongest, self._fec.decode_word(self._rows[strongest]), strict=True):
            for bits in list_decode(llrs):
                block = self._layout.decode_block(bits, self._key)
                if block is not None:
                    log_p = passing_bits * log(2) + chernoff_log_p(self._rows[second], self._fec.encode(bits))
                    if log_p <= log(BLOCK_P):
                        yield BlockCandidate(int(second), block, log_p)
                    break

    def _best_blocks(self, candidates: list[BlockCandidate], needed: int) -> list[tuple[float, Block]]:
        """The most significant decoding of every block with its log p, the most significant first."""
        best: dict[int, tuple[float, Block]] = {}
        for candidate in candidates:
            index = candidate.block.index
            if index not in best or candidate.log_p < best[index][0]:
                best[index] = candidate.log_p, candidate.block
        positions = _block_positions(candidates, self._layout.period(needed), len(self._rows))
        indices = np.unique(positions[positions >= 0])
        sums = np.stack([self._rows[positions == index].sum(0) for index in indices])
        for index, log_p, block in self._decode_sums(indices, sums):
            if block.needed == needed and (index not in best or log_p < best[index][0]):
                best[index] = log_p, block
        return sorted(best.values(), key=lambda pair: pair[0])

    def _decode_sums(self, indices: NDArray[np.int64], sums: NDArray[np.float64]) -> Iterator[tuple[int, float, Block]]:
        """Decode sums of seconds (indices, slots) with known kind and index: (index, log p, block)."""
        prefix = [np.append(to_bits(LONG_KIND, KIND_BITS), to_bits(i, self._layout.index_bits)) for i in indices]
        words = self._fec.decode_word(sums, np.stack(prefix))
        for index, total, llrs in zip(indices, sums, words, strict=True):
            for bits in list_decode(llrs):
                block = self._layout.decode_block(bits, self._key)
                if block is not None:
                    passing_bits = 8 * self._layout.data_bytes
                    yield int(index), passing_bits * log(2) + chernoff_log_p(total, self._fec.encode(bits)), block

    def _solve(self, blocks: list[tuple[float, Block]], needed: int) -> Message | None:
        """The first body of `needed` blocks that passes its check; the most significant blocks are tried first."""
        points = np.array([block.index for _, block in blocks])
        data = np.array([list(block.data) for _, block in blocks], np.uint8)
        for chosen in islice(combinations(range(min(len(blocks), needed + 2)), needed), MAX_BLOCK_SETS):
            body = values_at(np.arange(needed), points[list(chosen)], data[list(chosen)])
            message = parse_body(body.tobytes(), len(self._fec.generator), self._key)
            if message is not None:
                return message
        return None


def list_decode(llrs: NDArray[np.float32]) -> Iterator[NDArray[np.bool_]]:
    """List decoding, list size 2: the best word (bits,) and the second best, from max-log margins (bits,).

    A margin is the distance to the best word in which that bit differs, so the second best differs in just the bits
    that share the least margin. Where seven of ten seconds of 46 bits can be decoded or more, it is right for a fifth
    or more of the others. For messages of one payload it is useless: its score is hardly ever significant.
    """
    bits, margins = llrs > 0, np.abs(llrs)
    yield bits
    yield bits ^ (margins <= margins.min() * (1 + MARGIN_TOLERANCE))


def fold_period(rows: NDArray[np.float64], max_period: int) -> list[NDArray[np.float64]]:
    """Add up seconds that repeat each other: [(period, slots)], or [] if (seconds, slots) have no period."""
    count, slots = rows.shape
    periods = range(2, min(max_period, count - 1) + 1, 2)
    if not periods:
        return []
    # The mean over all seconds, large in a monotonous message, says nothing about the period.
    centred = rows - rows.mean(0)
    correlation = _autocorrelate(centred)
    variance = _autocorrelate(np.square(centred).sum(-1, keepdims=True)).clip(0) / slots
    # The correlation peaks at every multiple of the period; summing them favours the period over its multiples.
    sums = np.array([(correlation[period::period].sum(), variance[period::period].sum()) for period in periods])
    scores = np.divide(sums[:, 0], np.sqrt(sums[:, 1]), out=np.zeros(len(sums)), where=sums[:, 1] > 0)
    if scores.max() < MIN_PERIOD_SIGMA:
        return []
    period = periods[scores.argmax()]
    return [np.pad(rows, ((0, -count % period), (0, 0))).reshape(-1, period, slots).sum(0)]


def align_payloads(payloads: NDArray[np.uint8], rows: NDArray[np.float64], fec: FecCode) -> NDArray[np.uint8]:
    """Viterbi over the phase of the message: which of (period, bits) each of (seconds, slots) carries.

    One payload follows the other, except at a cut, which costs CUT_PENALTY_SIGMA.

    Returns:
        (seconds, bits).
    """
    count, period = len(rows), len(payloads)
    correlation = rows @ (2.0 * fec.encode(payloads).T - 1) / np.sqrt(np.square(rows).sum() / count)
    previous = np.roll(np.arange(period), 1)
    traceback = np.empty((count, period), np.int64)
    best = np.zeros(period)
    for second in range(count):
        cut = best.max() - CUT_PENALTY_SIGMA > best[previous]
        traceback[second] = np.where(cut, best.argmax(), previous)
        best = np.where(cut, best.max() - CUT_PENALTY_SIGMA, best[previous]) + correlation[second]
    path = [int(best.argmax())]
    for second in range(count - 1, 0, -1):
        path.append(int(traceback[second, path[-1]]))
    return np.asarray(payloads[path[::-1]])


def _autocorrelate(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """(seconds, …) → (seconds,): sums of products of seconds at every lag."""
    count = len(rows)
    spectrum = np.fft.rfft(rows, 2 * count, axis=0)
    return np.fft.irfft(np.square(np.abs(spectrum)).sum(-1), 2 * count)[:count]


def _block_positions(candidates: list[BlockCandidate], period: int, count: int) -> NDArray[np.int64]:
    """(seconds,): the block index of each second, from the nearest candidates on both sides; −1 if they disagree."""
    seconds = np.array([candidate.second for candidate in candidates])
    phases = np.array([candidate.block.index for candidate in candidates]) - seconds
    times = np.arange(count)
    after = np.searchsorted(seconds, times)
    before = np.searchsorted(seconds, times, side="right") - 1
    last = len(seconds) - 1
    # Before the first candidate and after the last one there is one side only.
    from_left = (times + phases[np.where(before < 0, 0, before)]) % period
    from_right = (times + phases[np.where(after > last, last, after)]) % period
    return np.where(from_left == from_right, from_left, -1)
