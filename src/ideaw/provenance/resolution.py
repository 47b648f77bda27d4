"""From what is left of a marked file to its manifest: by the id in its mark, by its fingerprint, by its audio.

What the server of C2PA's Soft Binding Resolution API answers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import msgspec

from ideaw.errors import IdeawError, RegistryError
from ideaw.keys import Key
from ideaw.marker import Marker
from ideaw.provenance.fingerprint import Agreement, compare, file_fingerprint
from ideaw.provenance.manifest_store import active_label, labelled_id, only_active
from ideaw.provenance.records import ID_BYTES, Record, id_message, message_id, read_id, written_id
from ideaw.provenance.registry import Registry

FINGERPRINT_ALGORITHM = "ideaw.record-fingerprint.1"
"""A soft binding whose value is the four bytes of an id, and behind them a fingerprint of the audio that was found: it
is compared with that of the id's record. Records are not searched for a fingerprint alone. The name is our own too."""

_PUBLIC_FIELDS = (
    *("created", "message", "key_fingerprint", "wire_format", "model"),
    *("duration_seconds", "sha256", "fingerprint"),
)
"""Fields of a record that everybody may know."""

SAME_SCORE = 100
"""Similarity of audio of which all that can be compared agrees with the record."""


@dataclass(frozen=True)
class Match:
    """A manifest that belongs to what was asked for."""

    manifest_id: str
    """Label of the active manifest."""
    score: int | None = None
    """Per cent of the audio that agrees with the record, of what can be compared: 100 for the same recording, 0 for
    another one, to which the mark was copied. None where nothing was compared."""


def match_id(registry: Registry, number: int) -> Match | None:
    """The manifest of an id; None if the registry has none.

    Raises:
        RegistryError: the registry cannot be used.
    """
    return _match(registry.get(number), None)


def match_fingerprint(registry: Registry, binding: bytes) -> Match | None:
    """The manifest of an id, and how far a fingerprint agrees with its record.

    Args:
        registry: where the record is.
        binding: a value of `FINGERPRINT_ALGORITHM`.

    Raises:
        IdeawError: this is no such value.
        RegistryError: the registry cannot be used.
    """
    number = message_id(binding[:ID_BYTES])
    if number is None:
        raise IdeawError(f"a value of {FINGERPRINT_ALGORITHM} begins with the {ID_BYTES} bytes of an id")
    record = registry.get(number)
    if record is None:
        return None
    try:
        return _match(record, compare(record.fingerprint, binding[ID_BYTES:]))
    except RegistryError as problem:
        raise IdeawError(f"a value of {FINGERPRINT_ALGORITHM} ends with a fingerprint: {problem}") from None


def fingerprint_binding(number: int, fingerprint: bytes) -> bytes:
    """The value of `FINGERPRINT_ALGORITHM` for an id and the fingerprint of found audio."""
    return id_message(number) + fingerprint


def match_content(
    registry: Registry,
    marker: Marker,
    path: str | PathLike[str],
    keys: Sequence[Key],
    hints: Iterable[int] = (),
    longest: float | None = None,
) -> list[Match]:
    """The manifests of the ids in the marks of a file, the most similar first.

    Args:
        registry: where the records are.
        marker: searches the file.
        path: of the file.
        keys: under which it is searched.
        hints: ids that are compared too, if only the file's mark is lost.
        longest: seconds beyond which a file is refused.

    Raises:
        AudioError: it cannot be searched.
        FileError: it cannot be read.
        RegistryError: the registry cannot be used.
    """
    hints = list(hints)
    detection = marker.detect_file(path, keys=list(keys), expected=list(map(id_message, hints)), longest=longest)
    marks = [(detection.message, detection.key), *((one.message, one.key) for one in detection.segments)]
    known = {key.fingerprint for key in keys}
    numbers = dict.fromkeys((message_id(message), key) for message, key in marks)
    hinted = dict.fromkeys((number, key) for number in hints for key in known)
    found = [(registry.get(number), key) for number, key in numbers | hinted if number is not None]
    records = [record for record, key in found if record is not None and record.key_fingerprint == key]
    if not records:
        return []
    fingerprint, _ = file_fingerprint(path, detection.speed, detection.tempo)
    matches = [_match(record, compare(record.fingerprint, fingerprint)) for record in records]
    return sorted((match for match in matches if match is not None), key=lambda match: -(match.score or 0))


def find_manifest(registry: Registry, manifest_id: str, active_only: bool = False) -> bytes | None:
    """The manifest store whose active manifest is called so; None if the registry has none.

    Args:
        registry: where it is looked for.
        manifest_id: label of the active manifest.
        active_only: whether the manifests of ingredients are left out.

    Raises:
        RegistryError: the registry cannot be used.
    """
    number = labelled_id(manifest_id)
    record = None if number is None else registry.get(number)
    if record is None or record.manifest is None or active_label(record.manifest) != manifest_id:
        return None
    return only_active(record.manifest) if active_only else record.manifest


def public_fields(record: Record) -> dict[str, Any]:
    """What everybody may know of a record, as JSON has it: not what its owner keeps beside it."""
    fields = {name: getattr(record, name) for name in _PUBLIC_FIELDS}
    label = None if record.manifest is None else active_label(record.manifest)
    return dict(msgspec.to_builtins(fields)) | {"id": written_id(record.id), "manifest_id": label}


def record_of(fields: Mapping[str, Any], manifest: bytes | None) -> Record:
    """The record of what `public_fields` tells.

    Args:
        fields: as JSON has them.
        manifest: its manifest store.

    Raises:
        RegistryError: they are none of a record.
    """
    try:
        known = {name: fields[name] for name in _PUBLIC_FIELDS}
        return msgspec.convert(known | {"id": read_id(fields["id"]), "manifest": manifest}, Record)
    except (KeyError, TypeError, msgspec.ValidationError) as problem:
        raise RegistryError(f"this is no record of an id: {problem}") from None


def similarity(agreement: Agreement) -> int | None:
    """Per cent of what could be compared that agrees; None if nothing could."""
    if not agreement.compared_seconds:
        return None
    if agreement.agrees:
        return SAME_SCORE
    agreeing = sum(end - start for start, end in agreement.seconds)
    return min(SAME_SCORE - 1, round(SAME_SCORE * agreeing / agreement.compared_seconds))


def _match(record: Record | None, agreement: Agreement | None) -> Match | None:
    if record is None or record.manifest is None:
        return None
    return Match(active_label(record.manifest), None if agreement is None else similarity(agreement))
