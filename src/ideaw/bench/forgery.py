"""Forged words at the level of symbols, without audio: how many of many tries a decoder with the secret key accepts.

What is tried is what the extractor and the embedder let anybody write: products of known patterns, which are patterns
again since the code is linear, and guesses. The decision is the decoder's own; only words that fail its zeros are
sorted out before, and counted, which it would reject for that. No noise is added: a forger loses nothing on the way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb

import numpy as np
from numpy.typing import NDArray

from ideaw.engine.decode import decode_repeated
from ideaw.errors import IdeawError
from ideaw.modem.channel import KeyChannels
from ideaw.modem.keyed import decipher
from ideaw.modem.short_frames import NUM_RIVALS, RingFrames
from ideaw.payload.message import KIND_BITS, Content, Message

COMBINED_PATTERNS = 3
"""Patterns in a product: of an odd number of words of a linear code it is again that of a word, their sum."""

FORGING_METHODS = ("combined", "word", "signs")
"""Products of known patterns; random words of the code with random tags; random signs in all slots."""

NOISES = (0.0, 1.0, 1.5)
"""Standard deviations of the noise on genuine words, whose symbols are ±1 in some 500 slots."""


@dataclass(frozen=True)
class Forgeries:
    """What became of some tries."""

    method: str
    tries: int
    known: int
    """Words whose messages and patterns the forger has."""
    past_zeros: int | None
    """Tries in which a compared word had its zeros right; None of codes that have none."""
    accepted: int
    """Tries that gave a message that was never written."""
    accepted_negated: int
    """The same where the tag was negated: who may ask twice for each word has both."""
    check_bits: list[float]
    """Bits of proof of all of these."""


@dataclass(frozen=True)
class Proofs:
    """Bits of proof of words whose zeros are right."""

    label: str
    tries: int
    check_bits: list[float]
    """Of those that gave their message."""


def forge(channels: KeyChannels, method: str, tries: int, rng: np.random.Generator) -> Forgeries:
    """Try to have new messages accepted.

    Args:
        channels: Of the secret key, which only the decoder uses, and the owner who wrote the known words.
        method: One of `FORGING_METHODS`.
        tries: How many.
        rng: Draws what is known and what is guessed.

    Raises:
        IdeawError: There is no such method, or the model has no code of words.
    """
    if method not in FORGING_METHODS or (method == "word" and not isinstance(channels.short, RingFrames)):
        raise IdeawError(f"forging by {method!r} is not possible here; methods are: {', '.join(FORGING_METHODS)}")
    known = _known_messages(channels, _enough_known(tries), rng) if method == "combined" else []
    contents = {message.content for message in known}
    past_zeros, counts, proofs = 0, [0, 0], []
    for values in islice(_written(channels, method, known, rng), tries):
        if not _some_zeros_right(values, channels):
            continue
        past_zeros += 1
        for turn, sign in enumerate((1, -1)[: 1 + isinstance(channels.short, RingFrames)]):
            content, check_bits = _ask(_tag_times(values, channels, sign), channels)
            if content is not None and content not in contents:
                counts[turn] += 1
                proofs.append(check_bits)
    zeros = past_zeros if isinstance(channels.short, RingFrames) else None
    return Forgeries(method, tries, len(known), zeros, counts[0], counts[1], proofs)


def compare_proofs(channels: KeyChannels, tries: int, rng: np.random.Generator) -> list[Proofs]:
    """Bits of proof where the zeros are right: with a tag at random, and of genuine words in noise.

    Args:
        channels: Of the secret key, of a model whose words have tags.
        tries: Words of each.
        rng: Draws words, tags and noise.
    """
    messages = _known_messages(channels, tries, rng)
    words = [channels.short.symbols(message.encode(_message_bits(channels))) for message in messages]
    proofs = [
        Proofs("tag at random", tries, list(_proofs(_with_random_tags(words, channels, rng), messages, channels)))
    ]
    for noise in NOISES:
        noisy = (word + noise * rng.standard_normal(len(word)) for word in words)
        label = f"genuine, noise of {noise:g}" if noise else "genuine"
        proofs.append(Proofs(label, tries, list(_proofs(noisy, messages, channels))))
    return proofs


def expected_tries_log2(channels: KeyChannels) -> float | None:
    """log2 of the tries in which, on average, one compared word has its zeros right; None of codes without zeros."""
    frames = channels.short
    return frames.code.bits - frames.bits - np.log2(1 + NUM_RIVALS) if isinstance(frames, RingFrames) else None


def _enough_known(tries: int) -> int:
    """The least number of words that have so many combinations."""
    count = COMBINED_PATTERNS
    while comb(count, COMBINED_PATTERNS) < tries:
        count += 1
    return count


def _message_bits(channels: KeyChannels) -> int:
    return len(channels.message.fec.generator)


def _known_messages(channels: KeyChannels, count: int, rng: np.random.Generator) -> list[Message]:
    """Different messages of as many bits as a second has room for."""
    room = channels.short.bits - KIND_BITS
    numbers: dict[int, None] = {}
    while len(numbers) < count:
        numbers[int(rng.integers(1 << room))] = None
    return [Message(tuple(number >> place & 1 for place in range(room))) for number in numbers]


def _written(
    channels: KeyChannels, method: str, known: Sequence[Message], rng: np.random.Generator
) -> Iterator[NDArray[np.float32]]:
    """(slots,) of −1 and +1 without end, or as long as there are combinations."""
    frames = channels.short
    if method == "combined":
        patterns = [frames.symbols(message.encode(_message_bits(channels))) for message in known]
        for chosen in combinations(patterns, COMBINED_PATTERNS):
            yield np.asarray(np.prod(chosen, 0), np.float32)
    while method != "combined":
        signs = _random_signs(frames.slots, rng)
        if method == "word":
            assert isinstance(frames, RingFrames)
            content = np.arange(frames.slots - frames.tag_slots)
            signs[content] = frames.code.encode(rng.integers(0, 2, frames.code.bits))[frames.code.places(content)]
        yield signs


def _random_signs(count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    return (2 * rng.integers(0, 2, count) - 1).astype(np.float32)


def _some_zeros_right(values: NDArray[np.float32], channels: KeyChannels) -> bool:
    """Whether one of the words that the decoder compares has its zeros right."""
    frames = channels.short
    if not isinstance(frames, RingFrames):
        return True
    content = frames.slots - frames.tag_slots
    places = frames.code.collect(values[:content], frames.code.places(np.arange(content)))
    words, _ = frames.code.decode(places, NUM_RIVALS)
    return any(not decipher(word, channels.key)[frames.bits :].any() for word in words)


def _tag_times(values: NDArray[np.float32], channels: KeyChannels, sign: int) -> NDArray[np.float32]:
    frames = channels.short
    content = frames.slots - frames.tag_slots if isinstance(frames, RingFrames) else frames.slots
    return np.append(values[:content], sign * values[content:])


def _ask(values: NDArray[np.floating], channels: KeyChannels) -> tuple[Content | None, float]:
    """What the decoder says about a second, and the bits of proof."""
    decoded = decode_repeated(values[None], channels)
    return (None if decoded.message is None else decoded.message.content), decoded.check_bits


def _with_random_tags(
    words: Sequence[NDArray[np.float32]], channels: KeyChannels, rng: np.random.Generator
) -> Iterator[NDArray[np.float32]]:
    frames = channels.short
    assert isinstance(frames, RingFrames)
    for word in words:
        yield np.append(word[: -frames.tag_slots], _random_signs(frames.tag_slots, rng))


def _proofs(
    received: Iterator[NDArray[np.floating]], messages: Sequence[Message], channels: KeyChannels
) -> Iterator[float]:
    """Bits of proof of the words that gave their message."""
    for values, message in zip(received, messages, strict=True):
        content, check_bits = _ask(values, channels)
        if content == message.content:
            yield check_bits
