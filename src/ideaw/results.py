"""What a search in audio gives: a decision with its reasons, as plain frozen values that hold no secret.

Command line and service answer machines in one form, which is made here.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ideaw.layers import Layer
from ideaw.payload.message import Content, Message

Status = Literal["found", "unreadable", "none"]


@dataclass(frozen=True)
class Segment:
    """A stretch of marked audio."""

    start: float
    """Start in seconds of the audio as it was given."""
    end: float
    """End in seconds."""
    score: float
    """Correlation with the locating code, in standard deviations of one second's noise; the mean over its seconds."""
    message_ok: bool
    """Whether the message can be read from this stretch alone."""
    message: Content | None = None
    """The message of this stretch; in spliced audio they may differ."""
    key: str | None = None
    """Fingerprint of the key that this stretch was marked with (`Key.fingerprint`)."""

    def __str__(self) -> str:
        read = "message not readable here alone" if self.message is None else str(Message(self.message))
        return f"{self.start:.2f}–{self.end:.2f} s, score {self.score:.1f}, {read}"


@dataclass(frozen=True)
class Detection:
    """The answer of `detect`: whether a mark is there, what it says, and how sure that is."""

    status: Status
    """"found": locating code and message together are significant, and the message passes its check; "unreadable": the
    locating code alone is significant, but no message can be read; "none": neither."""
    message: Content | None
    """Text, bytes or bits as they were embedded, of the most significant stretch; None unless found."""
    p_value: float
    """Upper bound on the probability that audio without a mark of these keys gives a result this strong, with every
    trial counted; never below 2 to the power of minus the bits of the key."""
    segments: list[Segment]
    """Where the marks are; empty for "none"."""
    bit_confidence: tuple[float, ...]
    """One LLR for each bit that was sent, enciphered bits for most messages (docs/wire-format.md): positive for 1, of
    larger magnitude where it is more certain; empty for "none"."""
    key: str | None = None
    """Fingerprint of the key that the mark was made with (`Key.fingerprint`); None unless found."""
    speed: float = 1.0
    """Playback speed relative to the audio that was marked; 1.05 is 5 % faster."""
    layer: Layer | None = None
    """Which layer of the mark spoke: "fast", the network's, or "deep"; None for "none"."""
    check_bits: int = 0
    """Bits of proof that the message was made with the key: without it, forging as much takes 2^check_bits tries, see
    docs/security.md. 0 unless found."""
    wire_format: int | None = None
    """Number of the format that the mark is written in; None unless found."""
    heard_seconds: float | None = None
    """Seconds of the audio that were listened to, where that is not all of it: nothing is known of the rest."""
    tempo: float = 1.0
    """Playback tempo at the same pitch, relative to the audio that was marked; 1 where `speed` says it all. The deep
    layer does not tell the two apart below 3 %, and says speed."""

    @property
    def found(self) -> bool:
        """The decision: whether a message was found."""
        return self.status == "found"

    @property
    def messages(self) -> tuple[Content, ...]:
        """All messages that were read, that of the decision first: joined recordings may carry several."""
        read = [self.message, *(segment.message for segment in self.segments)]
        return tuple(dict.fromkeys(message for message in read if message is not None))

    def __str__(self) -> str:
        if self.status == "unreadable" and self.layer == "deep":
            how = "but no message can be read from it; test some as expected ones"
            return f"unreadable: a deep mark is there, {how} (p = {self.p_value:.1e})"
        if self.status == "unreadable":
            return f"unreadable: a mark is there, but its message cannot be read (p = {self.p_value:.1e})"
        if self.message is None:
            return f"not found: no mark (p = {self.p_value:.1e})"
        same_key = (segment for segment in self.segments if segment.key == self.key)
        marked = sum(segment.end - segment.start for segment in same_key if segment.message in (self.message, None))
        layer = " in the deep layer" if self.layer == "deep" else ""
        speed = "" if self.speed == 1 else f", played {self.speed:.3g} times as fast"
        tempo = "" if self.tempo == 1 else f", played at {self.tempo:.3g} times its tempo"
        return f"found {Message(self.message)} in {marked:.1f} s of audio{layer}{speed}{tempo} (p = {self.p_value:.1e})"


def detection_as_json(detection: Detection, names: Mapping[str, str | None]) -> dict[str, Any]:
    """A detection as JSON has it: bytes in hexadecimal digits, bits as a string of 0 and 1.

    Args:
        detection: what was found.
        names: fingerprints of the keys that were tried → what their owner calls each; the public key has no name.
    """
    return {
        "found": detection.found,
        "status": detection.status,
        "message": _digits(detection.message),
        "kind": message_kind(detection.message),
        "messages": [_digits(message) for message in detection.messages],
        "p_value": detection.p_value,
        "speed": round(detection.speed, 4),
        "tempo": round(detection.tempo, 4),
        "layer": detection.layer,
        "check_bits": detection.check_bits,
        "wire_format": detection.wire_format,
        "segments": [_segment_as_json(segment, names) for segment in detection.segments],
        "key": key_name(detection, names),
        "key_fingerprint": detection.key,
    }


def message_kind(content: Content | None) -> str | None:
    """What a message is, in a word."""
    return None if content is None else {str: "text", bytes: "bytes", tuple: "bits"}[type(content)]


def key_name(detected: Detection | Segment, names: Mapping[str, str | None]) -> str | None:
    """What the owner calls the key; None where there is none."""
    return None if detected.key is None else names[detected.key]


def _segment_as_json(segment: Segment, names: Mapping[str, str | None]) -> dict[str, Any]:
    fields = dataclasses.asdict(segment) | {"message": _digits(segment.message), "key": key_name(segment, names)}
    return fields | {"key_fingerprint": segment.key}


def _digits(content: Content | None) -> str | None:
    if isinstance(content, bytes):
        return content.hex()
    return "".join(map(str, content)) if isinstance(content, tuple) else content
