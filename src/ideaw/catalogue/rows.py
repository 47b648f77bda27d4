"""One flat row for each file, with a schema that stays: what other people's pipelines read.

Bytes are hexadecimal digits and bits a string of 0 and 1, as in `ideaw detect --json`; segments are JSON.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from ideaw.results import Detection, detection_as_json

SCHEMA_VERSION = "1"
"""Changes when a column changes; new columns come at the end."""

Listened = Literal["whole", "until sure", "probe", "cache"]
"""What a row is based on: all of the file, its beginning, excerpts, or what the network heard in an earlier scan."""

_SCAN_FIELDS = [
    ("index", pa.int64(), "place in the manifest, from 0"),
    ("id", pa.string(), "the manifest's id; else the path below the source"),
    ("path", pa.string(), "full path or URL"),
    ("size", pa.int64(), "bytes, as listed"),
    ("etag", pa.string(), "what changes with the content, as listed"),
    ("status", pa.string(), "found, unreadable, none or error"),
    ("error", pa.string(), "why the file could not be searched"),
    ("message", pa.string(), "of the most significant mark"),
    ("message_kind", pa.string(), "text, bytes (hexadecimal) or bits"),
    ("key", pa.string(), "fingerprint of the key that it was found with"),
    ("p_value", pa.float64(), "bound on the probability of an accident"),
    ("speed", pa.float64(), "relative to the audio that was marked"),
    ("segments", pa.int32(), "number of marked stretches"),
    ("marked_seconds", pa.float64(), "their length together"),
    ("segments_json", pa.string(), "the stretches, as in `ideaw detect --json`"),
    ("seconds", pa.float64(), "length of the audio"),
    ("heard_seconds", pa.float64(), "seconds that were listened to"),
    ("listened", pa.string(), "whole, until sure, probe or cache"),
    ("cpu_seconds", pa.float64(), "of one core, decoding and all"),
    ("tempo", pa.float64(), "at the same pitch, relative to the audio that was marked"),
    ("layer", pa.string(), "which spoke: fast, or deep where it was looked for; null for none"),
    ("check_bits", pa.int32(), "of proof that the message was made with the key"),
    ("wire_format", pa.int32(), "that the mark is written in; null unless found"),
]

_MARK_FIELDS = [
    *_SCAN_FIELDS[:5],
    ("status", pa.string(), "marked or error"),
    ("error", pa.string(), "why the file was not marked"),
    ("message", pa.string(), "that was embedded"),
    ("message_kind", pa.string(), "text, bytes (hexadecimal) or bits"),
    ("key", pa.string(), "fingerprint of the key"),
    ("target", pa.string(), "the marked file, in which the message was found"),
    ("seconds", pa.float64(), "length of the audio"),
    ("cpu_seconds", pa.float64(), "of one core, decoding and all"),
]


def _schema(fields: list[tuple[str, pa.DataType, str]]) -> pa.Schema:
    columns = [pa.field(name, kind, metadata={"meaning": meaning}) for name, kind, meaning in fields]
    return pa.schema(columns, metadata={"ideaw.schema": SCHEMA_VERSION})


SCAN_SCHEMA, MARK_SCHEMA = _schema(_SCAN_FIELDS), _schema(_MARK_FIELDS)
"""The columns of parts of `ideaw scan` and of `ideaw mark`, each with its meaning in its metadata."""

Row = dict[str, Any]
"""A row by column; what is left out is null."""


@dataclass(frozen=True)
class Cost:
    """What a file took: its length and what was heard of it in seconds of audio, and seconds of CPU."""

    seconds: float | None = None
    heard_seconds: float = 0.0
    listened: Listened | None = None
    cpu_seconds: float = 0.0


def detection_row(detection: Detection, names: Mapping[str, str | None] | None = None) -> Row:
    """The columns that a detection fills.

    Args:
        detection: what was found.
        names: fingerprints of the keys that were tried → what their owner calls each.
    """
    fingerprints = {detection.key, *(segment.key for segment in detection.segments)} - {None}
    answer = detection_as_json(detection, names or {str(fingerprint): None for fingerprint in fingerprints})
    return {
        "status": detection.status,
        "message": answer["message"],
        "message_kind": answer["kind"],
        "key": detection.key,
        "p_value": detection.p_value,
        "speed": answer["speed"],
        "segments": len(detection.segments),
        "marked_seconds": round(sum(segment.end - segment.start for segment in detection.segments), 3),
        "segments_json": json.dumps(answer["segments"]),
    } | {name: answer[name] for name in ("tempo", "layer", "check_bits", "wire_format")}


def result_columns(detection: Detection, cost: Cost) -> Row:
    """The columns that a detection and what it took fill."""
    return detection_row(detection) | {
        "seconds": cost.seconds,
        "heard_seconds": cost.heard_seconds,
        "listened": cost.listened,
        "cpu_seconds": cost.cpu_seconds,
    }


def error_row(reason: str) -> Row:
    """The columns that a failure fills; the reason is one line."""
    return {"status": "error", "error": " ".join(reason.split())}


def as_table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    """Rows as a table of exactly this schema."""
    return pa.Table.from_pylist(rows, schema=schema)
