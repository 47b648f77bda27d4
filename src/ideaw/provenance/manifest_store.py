"""C2PA manifest stores as bytes: how the manifests in one are called, and the active one by itself.

A store is a JUMBF box (ISO 19566-5) that holds a box for each manifest, the active one last. Nothing else of it is read
here, and nothing is verified. The label of a manifest that we sign begins with the id of its record, so that a registry
finds it without a list of labels.
"""

import re
import uuid
from collections.abc import Iterator

from ideaw.errors import RegistryError
from ideaw.provenance.records import read_id, written_id

LABEL_PREFIX = "urn:c2pa:"
"""How labels of manifests begin; a UUID follows."""

_SUPERBOX, _DESCRIPTION = b"jumb", b"jumd"
_HEAD_BYTES = 8
"""Length and type of a box."""

_LABEL_AT = _HEAD_BYTES + 17
"""Where the label begins in a description box: behind its type's UUID and its flags."""

_OUR_LABEL = re.compile(rf"{LABEL_PREFIX}([0-9a-fA-F]{{8}})-[0-9a-fA-F]{{4}}-4[0-9a-fA-F]{{3}}-")


def fresh_label(number: int) -> str:
    """A label for the manifest of a record: a random UUID (version 4) whose first 32 bits, the id, are random too."""
    return f"{LABEL_PREFIX}{written_id(number)}{str(uuid.uuid4())[8:]}"


def labelled_id(label: str) -> int | None:
    """The id that a label of ours begins with; None if it is none of ours."""
    found = _OUR_LABEL.match(label)
    return None if found is None else read_id(found[1])


def active_label(store: bytes) -> str:
    """The label of the active manifest in a store.

    Raises:
        RegistryError: it is no manifest store.
    """
    *_, active = _manifests(store)
    description = active[_HEAD_BYTES:]
    label, end, _ = description[_LABEL_AT:].partition(b"\0")
    if description[4:_HEAD_BYTES] != _DESCRIPTION or not end:
        raise _not_a_store()
    return label.decode("utf-8", "replace")


def only_active(store: bytes) -> bytes:
    """A store with the active manifest alone, without those of ingredients.

    Raises:
        RegistryError: it is no manifest store.
    """
    *_, active = _manifests(store)
    description = next(_boxes(store[_HEAD_BYTES:]))
    return (_HEAD_BYTES + len(description) + len(active)).to_bytes(4, "big") + _SUPERBOX + description + active


def _manifests(store: bytes) -> list[bytes]:
    """The boxes of the manifests in a store, at least one."""
    boxes = list(_boxes(store))
    if len(boxes) != 1 or store[4:_HEAD_BYTES] != _SUPERBOX:
        raise _not_a_store()
    manifests = [box for box in _boxes(store[_HEAD_BYTES:]) if box[4:_HEAD_BYTES] == _SUPERBOX]
    if not manifests:
        raise _not_a_store()
    return manifests


def _boxes(content: bytes) -> Iterator[bytes]:
    """The boxes that follow each other in some bytes, with their heads."""
    while content:
        size = int.from_bytes(content[:4], "big")
        if (
            not _HEAD_BYTES <= size <= len(content)
        ):  # boxes of more than 4 GB, or without an end, are none of a manifest
            raise _not_a_store()
        yield content[:size]
        content = content[size:]


def _not_a_store() -> RegistryError:
    return RegistryError("these bytes are no C2PA manifest store")
