"""A rateless tail-biting convolutional code: an endless sequence of slots, any stretch of which is a code of its own.

The bits of a message are the steps of a circular trellis. Slot after slot goes to the steps in an order that spreads
any stretch over the whole circle, once for each generator polynomial, and then again. So all slots that were received,
of any seconds, are decoded together, once: every bit has the energy of all of them.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from math import gcd

import numpy as np
from numpy.typing import NDArray

from ideaw.modem.soft_decision import GENERATOR_POLYNOMIALS, MEMORY_BITS, MIN_TRELLIS_STEPS, NUM_STATES

NUM_POLYNOMIALS = len(GENERATOR_POLYNOMIALS)

STRIDE_SHARE = (5**0.5 - 1) / 2
"""Share of the circle from one slot's step to the next one's: multiples of the golden section lie evenly."""

BRANCH_STEPS = 512
"""Steps whose branch metrics are computed at a time: bounds the memory."""


@dataclass(frozen=True)
class RingCode:
    """The code of messages of so many bits, more than MEMORY_BITS."""

    bits: int

    @property
    def num_places(self) -> int:
        """Slots that differ: one for each step and polynomial."""
        return self.bits * NUM_POLYNOMIALS

    @cached_property
    def stride(self) -> int:
        """Steps from one slot to the next: the least number from STRIDE_SHARE of the circle on that visits all."""
        return next(step for step in range(int(STRIDE_SHARE * self.bits), self.bits) if gcd(step, self.bits) == 1)

    def places(self, slots: NDArray[np.integer]) -> NDArray[np.int64]:
        """(…,) numbers of slots in the endless sequence → (…,) places, step · NUM_POLYNOMIALS + polynomial."""
        rounds, turn = np.divmod(np.asarray(slots, np.int64), self.bits)
        return np.asarray(turn * self.stride % self.bits * NUM_POLYNOMIALS + rounds % NUM_POLYNOMIALS)

    def encode(self, words: NDArray[np.integer | np.bool_]) -> NDArray[np.float32]:
        """(…, bits) zeros and ones → (…, bits · NUM_POLYNOMIALS) of −1 and +1 for all places."""
        words = np.asarray(words).astype(np.uint8)
        delayed = np.stack([np.roll(words, delay, -1) for delay in range(MEMORY_BITS + 1)], -1)
        coded = delayed @ _taps() & 1
        return (2 * coded.astype(np.float32) - 1).reshape(*words.shape[:-1], -1)

    def collect(self, values: NDArray[np.floating], places: NDArray[np.integer]) -> NDArray[np.float64]:
        """Add up the LLRs (…,) of slots that belong to these places (…,): (num_places,)."""
        return np.bincount(places.ravel(), np.asarray(values, np.float64).ravel(), self.num_places).astype(np.float64)

    def decode(self, places: NDArray[np.floating], rivals: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """List decoding: the maximum-likelihood word and, for its least certain bits, the best word without each.

        Args:
            places: (num_places,) LLRs, as `collect` gives them.
            rivals: for how many bits.

        Returns:
            (words, bits) zeros and ones, the best first, each once; and the (bits,) max-log margins of the best,
            positive for 1.
        """
        metrics = np.asarray(places, np.float64).reshape(self.bits, NUM_POLYNOMIALS)
        scale = np.abs(metrics).max(initial=0) or 1.0
        branches = (metrics / scale).astype(np.float32) @ _signs()
        forward = _forward(branches)
        margins, flipped = _backward(branches, forward)
        best = margins > 0
        weakest = np.argsort(np.abs(margins), kind="stable")[:rivals]
        words = np.concatenate([best[None].astype(np.uint8), _trace_back(branches, forward, weakest, flipped[weakest])])
        scores = self.encode(words) @ metrics.ravel()
        _, first = np.unique(words, axis=0, return_index=True)
        kept = first[np.argsort(-scores[first], kind="stable")]
        return words[kept], (margins * scale).astype(np.float32)


def _forward(branches: NDArray[np.float32]) -> NDArray[np.float32]:
    """(steps, 2 · NUM_STATES) branch metrics → (steps, NUM_STATES) of the states before each step, less their best."""
    steps, half = len(branches), NUM_STATES // 2
    forward = np.empty((steps, NUM_STATES), np.float32)
    state, paths = np.zeros((2, half), np.float32), np.empty((2, 2, half), np.float32)
    warm_up = -(-MIN_TRELLIS_STEPS // steps) * steps if steps < MIN_TRELLIS_STEPS else MIN_TRELLIS_STEPS
    for step in range(-warm_up, steps):
        if step >= 0:
            forward[step] = state.ravel()
        np.add(state, branches[step % steps].reshape(2, 2, half), out=paths)
        # The oldest bit is shifted out, and the newest in as the lowest digit.
        state = np.maximum(paths[:, 0], paths[:, 1]).T.reshape(2, half)
        state -= state.max()
    return forward


def _backward(
    branches: NDArray[np.float32], forward: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Max-log margins (steps,), and of each step the best branch (steps,) with the less likely bit."""
    steps, half = len(branches), NUM_STATES // 2
    margins, flipped = np.empty(steps, np.float32), np.empty(steps, np.int64)
    state = np.zeros((half, 2), np.float32)
    warm_up = -(-MIN_TRELLIS_STEPS // steps) * steps if steps < MIN_TRELLIS_STEPS else MIN_TRELLIS_STEPS
    for step in range(steps + warm_up - 1, -1, -1):
        paths = branches[step % steps].reshape(2, 2, half) + state.T[:, None]
        if step < steps:
            totals = (paths + forward[step].reshape(2, half)).reshape(2, NUM_STATES)
            best = totals.max(1)
            margins[step] = (best[1] - best[0]) / 2
            other = int(best[1] <= best[0])
            flipped[step] = other * NUM_STATES + totals[other].argmax()
        state = np.maximum(paths[0], paths[1]).reshape(half, 2)
        state -= state.max()
    return margins, flipped


def _trace_back(
    branches: NDArray[np.float32], forward: NDArray[np.float32], ends: NDArray[np.int64], edges: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """The words (paths, steps) of the best paths around the circle that end with these branches of these steps."""
    steps, half = len(branches), NUM_STATES // 2
    words = np.empty((len(ends), steps), np.uint8)
    rows = np.arange(len(ends))
    newest, state = np.divmod(edges, NUM_STATES)
    words[rows, ends] = newest
    for back in range(1, steps):
        at = (ends - back) % steps
        newest, rest = state & 1, state >> 1
        branch = newest * NUM_STATES + rest
        young, old = (forward[at, rest + top] + branches[at, branch + top] for top in (0, half))
        words[rows, at] = newest
        state = rest + half * (old > young)
    return words


@cache
def _taps() -> NDArray[np.uint8]:
    """(MEMORY_BITS + 1, NUM_POLYNOMIALS): by how many steps delayed bits a slot sums up."""
    digits = np.arange(MEMORY_BITS + 1)[:, None]
    return (np.array(GENERATOR_POLYNOMIALS) >> digits & 1).astype(np.uint8)


@cache
def _signs() -> NDArray[np.float32]:
    """(NUM_POLYNOMIALS, 2 · NUM_STATES) of ±1: the slots of a step, by its bit and then by the state before."""
    newest, state = np.divmod(np.arange(2 * NUM_STATES), NUM_STATES)
    register = (state << 1 | newest) >> np.arange(MEMORY_BITS + 1)[:, None] & 1
    return 2 * (_taps().T.astype(np.int64) @ register & 1).astype(np.float32) - 1
