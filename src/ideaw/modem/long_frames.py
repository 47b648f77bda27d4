"""Long messages on the slots of seconds: stretches of one endless sequence of slots, so all seconds are one code.

Second after second carries the next stretch; after SEQUENCE_PHASES of them it begins again. Some slots tell how
long the message is and, with signs that differ from phase to phase, which phase a second has. The bits are enciphered
together with zeros, which check them. All signs are scrambled under the key, others in every phase, so that without a
mark the values of all phases have independent random signs.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ideaw.modem.keyed import decipher, encipher, keyed_signs
from ideaw.modem.ring_code import RingCode

SEQUENCE_PHASES = 64
"""Seconds after which the sequence repeats."""

LENGTH_SLOTS = 48
"""The first slots of a second, which tell the length of the message and the phase of the second."""

NUM_LENGTHS = 763
"""Lengths in bytes that are told apart, from one byte on."""

ODD_BITS = 5
"""Bits of a message besides its bytes."""

CHECK_ZEROS = 51
"""Zeros that are enciphered with a message, and checked: 48 bits of proof where eight words are tried."""

MASK_LABEL, LENGTH_LABEL = b"wire format 1: masks of phases", b"wire format 1: lengths"
"""Purposes under which signs are drawn."""


@dataclass(frozen=True, eq=False)
class LongFrames:
    """The seconds of long messages under one key.

    Attributes:
        key: Its bytes.
        slots: Of a second.
    """

    key: bytes
    slots: int

    @property
    def content_slots(self) -> int:
        """Slots of a second that carry the code."""
        return self.slots - LENGTH_SLOTS

    @cached_property
    def masks(self) -> NDArray[np.float32]:
        """(SEQUENCE_PHASES, slots) of −1 and +1 that scramble the seconds of each phase."""
        return keyed_signs(self.key, MASK_LABEL, (SEQUENCE_PHASES, self.slots))

    @cached_property
    def lengths(self) -> NDArray[np.float32]:
        """(NUM_LENGTHS, LENGTH_SLOTS) of −1 and +1: what tells that a message has 1, 2, … bytes."""
        return keyed_signs(self.key, LENGTH_LABEL, (NUM_LENGTHS, LENGTH_SLOTS))

    def code(self, num_bytes: int) -> RingCode:
        """The code of messages of so many bytes."""
        return RingCode(8 * num_bytes + ODD_BITS + CHECK_ZEROS)

    def places(self, code: RingCode) -> NDArray[np.int64]:
        """(SEQUENCE_PHASES, content_slots): where in a code the slots of all phases belong."""
        numbers = np.arange(SEQUENCE_PHASES * self.content_slots)
        return code.places(numbers).reshape(SEQUENCE_PHASES, self.content_slots)

    def symbols(self, bits: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(8 · bytes + ODD_BITS,) zeros and ones → (SEQUENCE_PHASES, slots) of −1 and +1, what each phase carries."""
        padded = np.append(bits, np.zeros(CHECK_ZEROS, np.uint8))
        return self.template(encipher(padded, self.key)) * self.masks

    def template(self, word: NDArray[np.uint8]) -> NDArray[np.float32]:
        """An enciphered word (bits,) → (SEQUENCE_PHASES, slots) of −1 and +1, not scrambled."""
        code = RingCode(len(word))
        num_bytes = (code.bits - CHECK_ZEROS - ODD_BITS) // 8
        length = np.broadcast_to(self.lengths[num_bytes - 1], (SEQUENCE_PHASES, LENGTH_SLOTS))
        return np.concatenate([length, code.encode(word)[self.places(code)]], 1)

    def open(self, word: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
        """The bits of an enciphered word; None if its check fails."""
        bits, zeros = np.split(decipher(word, self.key), [len(word) - CHECK_ZEROS])
        return None if zeros.any() else bits
