"""What a search in audio gives: a decision with its reasons, as plain frozen values."""

from dataclasses import dataclass

from ideaw.keys import Key
from ideaw.payload.message import Content, Message


@dataclass(frozen=True)
class Segment:
    """A stretch of marked audio, from `start` to `end` in seconds."""

    start: float
    end: float
    score: float
    """The code's evidence, in standard deviations of one second's noise; the mean over its seconds."""
    message_ok: bool
    """Whether the message can be read from this stretch alone."""
    message: Content | None = None
    """The message of this stretch; in spliced audio they may differ."""
    key: Key | None = None
    """The key that this stretch was marked with."""

    def __str__(self) -> str:
        read = "message not readable here alone" if self.message is None else str(Message(self.message))
        return f"{self.start:.2f}–{self.end:.2f} s, score {self.score:.1f}, {read}"


@dataclass(frozen=True)
class Detection:
    """The answer of `detect`."""

    found: bool
    """The decision: code and message together are there beyond doubt, and the message passes its check."""
    message: Content | None
    """Text, bytes or bits as they were embedded; None if not found."""
    p_value: float
    """The probability that unmarked audio gives a result this strong."""
    segments: list[Segment]
    """Where the marks are; empty where no code was located."""
    bit_confidence: tuple[float, ...]
    """One soft value per message bit, positive for 1, further from 0 when surer; empty where no code was located."""
    key: Key | None = None
    """The key that the mark was made with; None if not found."""
    speed: float = 1.0
    """How many times as fast the audio was played as it was marked."""

    def __str__(self) -> str:
        if not self.found:
            why = "a mark is there, but its message is not readable" if self.segments else "no mark"
            return f"not found: {why} (p = {self.p_value:.1e})"
        assert self.message is not None
        mine = (segment for segment in self.segments if segment.key == self.key)
        marked = sum(segment.end - segment.start for segment in mine if segment.message in (self.message, None))
        pace = "" if self.speed == 1 else f", played {self.speed:.3g} times as fast"
        return f"found {Message(self.message)} in {marked:.1f} s of audio{pace} (p = {self.p_value:.1e})"
