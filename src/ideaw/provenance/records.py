"""What is kept of a marked file, and how its id stands in the mark.

A mark alone can be copied to other audio. The id that it carries leads to a record, and the record says which recording
it was given to.
"""

import json
import re
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ideaw.errors import RegistryError
from ideaw.payload.message import Content

ID_BYTES = 4
"""Length of an id in a mark: as much as one second of every model but 10+10 holds beside the check."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Record:
    """What is known of one marked file; nothing of it is personal unless the user puts it into `data`.

    Raises:
        RegistryError: a value is not what its field holds.
    """

    id: int
    """32 bits, which a registry allots, never twice."""
    created: datetime
    """When, with its time zone; a registry gives it back in UTC."""
    message: str
    """What was embedded, as `written_message` writes it: its notation, a colon, and the message in it. A mark that
    carries the id alone holds `id_message(id)`, four bytes, the highest first: "hex:00a1b2c3"."""
    key_fingerprint: str
    """Of the key that the mark was made with (`Key.fingerprint`), never the key."""
    wire_format: int
    """Format of the mark, 1 or later."""
    model: str
    """Name of the model, such as "46+10"."""
    duration_seconds: float
    """Length of the audio."""
    sha256: str
    """Of the file that was handed over, 64 hexadecimal digits in lower case."""
    fingerprint: bytes
    """Of its audio, as `provenance.fingerprint` makes it."""
    manifest: bytes | None = None
    """The signed C2PA manifest store; None where none was made."""
    data: dict[str, Any] = field(default_factory=dict)
    """What the user wants to keep beside it, as JSON."""

    def __post_init__(self) -> None:
        check_id(self.id)
        if self.created.tzinfo is None:
            raise RegistryError(f"the time {self.created} has no time zone; give one in UTC")
        if not _SHA256.fullmatch(self.sha256):
            raise RegistryError(f'"{self.sha256}" is no SHA-256; give 64 hexadecimal digits in lower case')
        try:
            plain = json.loads(json.dumps(self.data, allow_nan=False))
        except (TypeError, ValueError) as problem:
            raise RegistryError(f"the data of {written_id(self.id)} are not JSON: {problem}") from None
        object.__setattr__(self, "created", self.created.astimezone(UTC))
        object.__setattr__(self, "data", plain)


def fresh_id() -> int:
    """A random id.

    Ids are random because numbers in a row would tell how much somebody marks, and because a registry that is restored
    from a back-up would allot those after it once more.
    """
    return secrets.randbits(8 * ID_BYTES)


def check_id(number: int) -> int:
    """The same number; raise `RegistryError` if it is no id."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 8 * ID_BYTES:
        raise RegistryError(f"{number!r} is no id; an id is a whole number of {8 * ID_BYTES} bits")
    return number


def written_id(number: int) -> str:
    """An id as people read it: 8 hexadecimal digits, those of its bytes in the mark."""
    return id_message(number).hex()


def read_id(text: str) -> int:
    """The id that somebody wrote as 8 hexadecimal digits; raise `RegistryError` for anything else."""
    if not re.fullmatch(rf"[0-9a-fA-F]{{{2 * ID_BYTES}}}", text):
        raise RegistryError(f'"{text}" is no id; give the {2 * ID_BYTES} hexadecimal digits that were marked')
    return int(text, 16)


def id_message(number: int) -> bytes:
    """An id as the message of a mark: four bytes, the highest first."""
    return check_id(number).to_bytes(ID_BYTES, "big")


def message_id(content: Content | None) -> int | None:
    """The id that the message of a mark is; None if it is another message."""
    return int.from_bytes(content, "big") if isinstance(content, bytes) and len(content) == ID_BYTES else None


def written_message(content: Content) -> str:
    """A message in one string that says its kind: "text:ab12", "hex:00a1b2c3" for bytes, or "bits:0110"."""
    if isinstance(content, bytes):
        return f"hex:{content.hex()}"
    return f"text:{content}" if isinstance(content, str) else "bits:" + "".join(map(str, content))
