"""What is said of a file in the end: one word, one sentence, and what both rest on.

| status | mark | record | fingerprint | manifest |
| --- | --- | --- | --- | --- |
| authentic | found | known | agrees | any |
| copied | found | known | disagrees | any |
| partial | found | known | agrees in part | any |
| signed | found | unknown | – | fits, names the id |
| unknown | found | unknown | – | none |
| unreadable | without a message | – | – | any |
| unmarked | none | – | – | fits |
| none | none | – | – | none that fits |
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from ideaw.provenance.manifest import Manifest
from ideaw.provenance.records import Record, written_id
from ideaw.results import Detection, detection_as_json

VerdictStatus: TypeAlias = Literal[
    "authentic", "copied", "partial", "signed", "unknown", "unreadable", "unmarked", "none"
]


@dataclass(frozen=True)
class Place:
    """A stretch of audio that is the recording that a record was made for."""

    start: float
    """Start in seconds of the audio as it was given."""
    end: float
    """End in seconds."""
    record_id: int
    """The id of the record."""


@dataclass(frozen=True)
class Verdict:
    """The answer of `verify_file`."""

    status: VerdictStatus
    """What it comes to; "authentic" alone means that audio and record belong together."""
    reason: str
    """Why, in one sentence."""
    record: Record | None
    """What the mark leads to; None if it leads nowhere."""
    issuer: str | None
    """Who signed: by the record's manifest, as far as the registry is trusted; without one by the file's, where that is
    "trusted", or "valid" and there is no record, and then it is what somebody calls themselves."""
    segments: tuple[Place, ...]
    """Where the audio is the recording of a record."""
    detection: Detection
    """What was found of a mark."""
    manifest: Manifest
    """What was found of a manifest, in the file or beside it."""
    score: float | None = None
    """How well the piece of 3 s agrees with the record's fingerprint that agrees best, at most 1, below 0.2 for other
    recordings; None without a record."""
    origin: str | None = None
    """How the audio came to be, such as "trainedAlgorithmicMedia", as the same manifest as that of `issuer` says."""

    @property
    def record_id(self) -> int | None:
        """The id that the mark leads to a record with."""
        return None if self.record is None else self.record.id

    @property
    def created(self) -> datetime | None:
        """When the record was made, in UTC."""
        return None if self.record is None else self.record.created

    def __str__(self) -> str:
        return f"{self.status}: {self.reason}"


def verdict_as_json(verdict: Verdict, names: Mapping[str, str | None]) -> dict[str, Any]:
    """A verdict as JSON has it; ids in hexadecimal digits.

    Args:
        verdict: what was found.
        names: fingerprints of the keys that were tried → what their owner calls each; the public key has no name.
    """
    record, manifest = verdict.record, verdict.manifest
    kept = None
    if record is not None:
        kept = {
            "id": written_id(record.id),
            "created": record.created.isoformat(),
            "key_fingerprint": record.key_fingerprint,
            "model": record.model,
            "wire_format": record.wire_format,
            "duration_seconds": record.duration_seconds,
            "sha256": record.sha256,
            "signed": record.manifest is not None,
            "data": record.data,
        }
    summary = dataclasses.asdict(manifest) | {"record_ids": [written_id(number) for number in manifest.record_ids]}
    return {
        "status": verdict.status,
        "reason": verdict.reason,
        "record": kept,
        "issuer": verdict.issuer,
        "origin": verdict.origin,
        "segments": [
            {"start": place.start, "end": place.end, "record": written_id(place.record_id)}
            for place in verdict.segments
        ],
        "fingerprint_score": verdict.score,
        "manifest": summary | {"problems": list(manifest.problems)},
        "detection": detection_as_json(verdict.detection, names),
    }
