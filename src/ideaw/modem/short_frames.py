"""Short messages on the slots of a second: the same in every second, so that seconds add up.

Words of many bits are enciphered together with zeros, which check them, and sent in a ring code; the rest of the slots
is the word's tag, signs that only the key and the word give. Of few bits, every word has signs of its own everywhere.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, lru_cache
from math import log, log2

import numpy as np
from numpy.typing import NDArray

from ideaw.modem.keyed import decipher, encipher, keyed_signs, word_bytes
from ideaw.modem.ring_code import RingCode
from ideaw.modem.soft_decision import chernoff_log_p

MAX_CODEBOOK_BITS = 13
"""Most bits of which every word has signs of its own: 8,192 words are compared."""

MAX_CODEBOOKS = 4
"""Keys whose words stay in memory, each up to 17 MB."""

ZERO_BITS = 13
"""Zeros that are enciphered with the bits of a longer word, and checked."""

TAG_SHARE = 3 / 23
"""Share of the slots that are the tag of a longer word: 72 of 552 (E110)."""

NUM_RIVALS = 1
"""Words besides the best that are checked."""


@dataclass(frozen=True, eq=False)
class ShortWord:
    """A word that passes its check.

    Attributes:
        bits: (bits,) zeros and ones.
        symbols: (slots,) of −1 and +1, what a second with it carries.
        check_bits: How many bits of proof its check gave: who does not have the key, and writes what passes, makes it
            this sure once in 2^check_bits tries.
    """

    bits: NDArray[np.uint8]
    symbols: NDArray[np.float32]
    check_bits: float


@dataclass(frozen=True, eq=False)
class ShortFrames(ABC):
    """The seconds of short messages under one key.

    Attributes:
        key: Its bytes.
        bits: Of a word: kind and content.
        slots: Of a second.
    """

    key: bytes
    bits: int
    slots: int

    @abstractmethod
    def symbols(self, bits: NDArray[np.integer]) -> NDArray[np.float32]:
        """What every second of a word (bits,) carries: (slots,) of −1 and +1."""

    @abstractmethod
    def decode(self, total: NDArray[np.floating]) -> tuple[list[ShortWord], NDArray[np.float32]]:
        """Decode (slots,), the sum of some seconds.

        Returns:
            The words that pass their check, the likeliest first; and max-log margins of what was sent, positive for 1.
        """

    @abstractmethod
    def best_score(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """(seconds, slots) → (seconds,): the score of the best word of each."""


class CodebookFrames(ShortFrames):
    """Words of few bits: signs drawn for each, and all compared."""

    def symbols(self, bits: NDArray[np.integer]) -> NDArray[np.float32]:
        number = int("".join(str(int(bit)) for bit in bits), 2)
        return np.asarray(_codebook(self.key, self.bits, self.slots)[number].astype(np.float32))

    def decode(self, total: NDArray[np.floating]) -> tuple[list[ShortWord], NDArray[np.float32]]:
        scores = self._scores(np.asarray(total)[None])[0]
        best = int(scores.argmax())
        bits = np.array([best >> place & 1 for place in reversed(range(self.bits))], np.uint8)
        rivals = [scores[_words_with(self.bits, place, 1 - int(bit))].max() for place, bit in enumerate(bits)]
        margins = (scores[best] - np.array(rivals)) / 2
        word = self.symbols(bits)
        proof = -chernoff_log_p(total, word > 0) / log(2) - self.bits
        return [ShortWord(bits, word, max(0.0, proof))], np.where(bits, margins, -margins).astype(np.float32)

    def best_score(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        return np.asarray(self._scores(values).max(-1), np.float64)

    def _scores(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """(seconds, slots) → (seconds, words)."""
        scale = np.abs(values).max(initial=0) or 1.0
        scores = (values / scale).astype(np.float32) @ _codebook(self.key, self.bits, self.slots).T
        return np.asarray(scale * scores, np.float64)


class RingFrames(ShortFrames):
    """Longer words: a ring code of the enciphered word, then its tag."""

    @property
    def code(self) -> RingCode:
        """The code of the word and its zeros."""
        return RingCode(self.bits + ZERO_BITS)

    @property
    def tag_slots(self) -> int:
        """The last slots of a second, which are the tag."""
        return int(TAG_SHARE * self.slots)

    def symbols(self, bits: NDArray[np.integer]) -> NDArray[np.float32]:
        padded = np.append(np.asarray(bits, np.uint8), np.zeros(ZERO_BITS, np.uint8))
        return np.asarray(self._symbols(encipher(padded, self.key)[None])[0])

    def decode(self, total: NDArray[np.floating]) -> tuple[list[ShortWord], NDArray[np.float32]]:
        words, margins = self.code.decode(self._places(total), NUM_RIVALS)
        symbols = self._symbols(words)
        passed = []
        for row in np.argsort(-(symbols @ np.asarray(total, np.float64)), kind="stable"):
            plain = decipher(words[row], self.key)
            tag = slice(self.slots - self.tag_slots, None)
            if not plain[self.bits :].any() and total[tag] @ symbols[row, tag] > 0:
                proof = ZERO_BITS - log2(1 + NUM_RIVALS) - chernoff_log_p(total[tag], symbols[row, tag] > 0) / log(2)
                passed.append(ShortWord(plain[: self.bits], symbols[row], proof))
        return passed, margins

    def best_score(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        words = [self.code.decode(self._places(row), 0)[0] for row in values]
        return np.array([row @ self._symbols(word)[0] for row, word in zip(values, words, strict=True)], np.float64)

    def _places(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        content, code = self.slots - self.tag_slots, self.code
        return code.collect(values[:content], code.places(np.arange(content)))

    def _symbols(self, words: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(words, code.bits) enciphered → (words, slots)."""
        content = self.code.encode(words)[:, self.code.places(np.arange(self.slots - self.tag_slots))]
        tags = [keyed_signs(self.key, TAG_LABEL, (self.tag_slots,), word_bytes(word)) for word in words]
        return np.concatenate([content, np.stack(tags)], 1)


TAG_LABEL, CODEBOOK_LABEL = b"wire format 1: tag of a short message", b"wire format 1: words"
"""Purposes under which signs are drawn."""


def short_frames(key: bytes, bits: int, slots: int) -> ShortFrames:
    """The seconds of short messages whose kind and content are so many bits."""
    return (CodebookFrames if bits <= MAX_CODEBOOK_BITS else RingFrames)(key, bits, slots)


@lru_cache(maxsize=MAX_CODEBOOKS)
def _codebook(key: bytes, bits: int, slots: int) -> NDArray[np.float32]:
    """(2^bits, slots) of −1 and +1: all words in counting order, the first bit the highest."""
    return keyed_signs(key, CODEBOOK_LABEL, (1 << bits, slots))


@cache
def _words_with(bits: int, place: int, value: int) -> NDArray[np.int64]:
    """The numbers of all words in which the bit at this place has this value."""
    numbers = np.arange(1 << bits)
    return np.flatnonzero(numbers >> (bits - 1 - place) & 1 == value)
