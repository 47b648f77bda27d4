"""Large codes: tail-biting convolutional codes with memory 10, decoded on the circular trellis both ways.

Max-log gives the maximum-likelihood word (Viterbi's algorithm with margins), log-sum-exp the posterior of each bit
(BCJR/MAP). Going around the circle several times, instead of once per starting state, is nearly maximum likelihood: of
lost words of 46 bits one in eight, of those of 22 bits every other one scores lower than the word that was sent.

Some slots are systematic: where there is too little energy for the right word, a wrong one has fewer wrong bits.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ideaw.modem.soft_decision import NEGLIGIBLE_NATS, SoftCode, logsumexp

MEMORY_BITS = 10
"""Earlier bits that a slot can depend on."""

NUM_STATES = 1 << MEMORY_BITS

GENERATOR_POLYNOMIALS = (
    0x6E5, 0x5FB, 0x59D, 0x5D1, 0x675, 0x6F9, 0x6C7, 0x7D5, 0x4D7,
    0x65F, 0x5DD, 0x72B, 0x7D3, 0x5CD, 0x657, 0x6F9, 0x7B5, 0x6A7,
)  # fmt: skip
"""Which bits a slot sums up, the newest as the lowest binary digit. Each was chosen, of 160 or more, for the distance
of the code of all up to it; two alone have free distance 14, the best known for two."""

SHORT_RING_BITS = 3 * MEMORY_BITS
"""Codes of fewer bits have more systematic slots: circular decoding misses the best word there anyway."""

MAX_SLOTS_PER_BIT = 24

MIN_TRELLIS_STEPS = 9 * MEMORY_BITS
"""Steps around the circle, in whole turns, after which the unknown starting state does not matter."""


@dataclass(frozen=True, eq=False)
class TailBitingCode(SoftCode):
    """A tail-biting convolutional code; each bit is a step of the trellis with a slot for each polynomial.

    Attributes:
        polynomials: Generator polynomials of the slots of a step; 1 is a systematic slot.
    """

    polynomials: tuple[int, ...]

    @classmethod
    def of(cls, bits: int, slots_per_bit: int) -> "TailBitingCode":
        """The code of so many bits at rate 1 / `slots_per_bit`."""
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


def _logaddexp(
    a: NDArray[np.float32], b: NDArray[np.float32], scale: NDArray[np.float32] | None, out: NDArray[np.float32]
) -> None:
    """The `logsumexp` of two arrays into a third."""
    np.maximum(a, b, out=out)
    if scale is not None:
        out += np.log(1 + np.exp(np.maximum(-scale * np.abs(a - b), -NEGLIGIBLE_NATS))) / scale
