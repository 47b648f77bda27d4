"""Credentials in one call: an id, a mark that carries it, a fingerprint, a signed manifest and a record.

A file: what is written has no name until it is marked, read back, signed and recorded, and then gets its name. If that
last step fails, the record is taken back. Only a kill between the two leaves a record of a file that nobody has; no
file is ever handed over without its record.
"""

import hashlib
import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio import atomic
from ideaw.audio.blocks import Progress
from ideaw.audio.containers.fields import add_field
from ideaw.audio.formats import PathLike
from ideaw.audio.read import open_audio
from ideaw.audio.write import check_distinct
from ideaw.engine.gain import MarkLevel
from ideaw.errors import CredentialError, IdeawError
from ideaw.keys import Key
from ideaw.layers import LayersLike
from ideaw.marker import Marker, load
from ideaw.modem.channel import WIRE_FORMAT
from ideaw.provenance.credentials import Signer
from ideaw.provenance.fingerprint import Fingerprinter, file_fingerprint
from ideaw.provenance.labels import LABEL_NAME, label_cn
from ideaw.provenance.manifest import (
    Claim,
    Origin,
    media_type_of,
    read_manifest,
    sha256_of,
    sidecar_of,
    sign_digest,
    sign_file,
)
from ideaw.provenance.records import Record, id_message, written_id, written_message
from ideaw.provenance.registry import Registry
from ideaw.streams import EmbedStream

MARKING_SHARE = 0.9
"""Share of the work, for the sake of its progress; the rest is fingerprint and signature."""

SAMPLES_TYPE = "application/octet-stream"
"""Media type of samples in memory, for which their manifest stands."""

_logger = logging.getLogger("ideaw")


@dataclass(frozen=True)
class Credential:
    """What was issued: the record, with the manifest in it, and where else the manifest lies."""

    record: Record
    """As it stands in the registry."""
    level: MarkLevel | None = None
    """Level of the mark, SNR and noise to mask in dB, one of them None; None for streams and arrays."""
    sidecar: Path | None = None
    """The manifest's own file beside the marked one, where that cannot hold it."""

    @property
    def manifest(self) -> bytes | None:
        """The signed C2PA manifest store; None without a signer."""
        return self.record.manifest


def issue_file(
    source: PathLike,
    target: PathLike,
    *,
    registry: Registry,
    signer: Signer | None = None,
    marker: Marker | None = None,
    origin: Origin | None = None,
    label_producer: str | None = None,
    data: dict[str, Any] | None = None,
    snr: float | None = None,
    audibility: float | None = None,
    layers: LayersLike | None = None,
    longest: float | None = None,
    over: bool = False,
    other_keys: Sequence[Key] = (),
    overwrite: bool = True,
    progress: Progress | None = None,
) -> Credential:
    """Give a file an id: mark it with that, read it back, sign a manifest that names the id, and keep a record.

    All of it is done or nothing: neither a file without its record nor a record without its file.

    Args:
        source: the audio file.
        target: the file to write; its extension gives the format. WAV, FLAC, MP3 and M4A hold their manifest; beside
            others it lies in a file of its own with the extension `.c2pa`.
        registry: allots the id and keeps the record.
        signer: signs the manifest (None: there is none).
        marker: model and key (None: the default model under the public key).
        origin: what the manifest says of how the audio came to be: "generated" by a trained model, or "recorded"
            (None: the source was opened and marked, and is an ingredient, with its own manifest if it has one).
        label_producer: who generates; writes the label of China's GB 45438-2025 with this name into the file.
        data: what else to keep in the record, as JSON.
        snr, audibility, layers, longest, over, other_keys, progress: as for `Marker.embed_file`.
        overwrite: whether files at the places of the outputs may be replaced.

    Returns:
        The record with its manifest.

    Raises:
        AudioError, MessageError, FileError: as `Marker.embed_file`; the container has no place for the label.
        LostMarkError, AlreadyMarkedError: as `Marker.embed_file`.
        CredentialError: it cannot be signed; `origin` contradicts a manifest in the source, or the label.
        RegistryError: the registry cannot be used.
    """
    source, target = Path(source), Path(target)
    marker = marker or load()
    _check_origin(source, origin, label_producer, signer)
    check_distinct(source, target)
    record, sidecar = None, None
    try:
        with ExitStack() as files:
            final = files.enter_context(atomic.replace_on_success(target, overwrite))
            marked = files.enter_context(atomic.scratch_file(target))
            number = registry.allot()
            level = marker.embed_file(
                source,
                target,
                id_message(number),
                snr=snr,
                audibility=audibility,
                layers=layers,
                longest=longest,
                over=over,
                other_keys=other_keys,
                into=marked,
                progress=progress and _first_part_of(progress),
            )
            if label_producer is not None:
                plain, marked = marked, files.enter_context(atomic.scratch_file(target))
                add_field(plain, marked, LABEL_NAME, label_cn(label_producer, number), target)
            claim = Claim(number, origin, source)
            manifest, embedded = _write_signed(marked, final, claim, signer, target)
            if manifest is not None and not embedded:
                sidecar = sidecar_of(target)
                files.enter_context(atomic.replace_on_success(sidecar, overwrite)).write_bytes(manifest)
            drawn, seconds = file_fingerprint(final)
            made = make_record(number, marker, seconds, sha256_of(final).hex(), drawn, manifest, data)
            registry.record(made)
            record = made
    except BaseException:
        if record is not None:
            _take_back(registry, record, sidecar)
        raise
    if progress:
        progress(1.0)
    return Credential(record, level, sidecar)


def issue_array(
    samples: ArrayLike,
    rate: float,
    *,
    registry: Registry,
    origin: Origin,
    signer: Signer | None = None,
    marker: Marker | None = None,
    data: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[NDArray[Any], Credential]:
    """Give samples an id; the manifest stands for the bytes of the marked array, in the order of its samples.

    Args:
        samples, rate, options: as for `Marker.embed`.
        registry, signer, marker, data: as for `issue_file`.
        origin: "generated" by a trained model, or "recorded".

    Returns:
        The marked samples, of the same shape and type, and what was issued.

    Raises:
        IdeawError: as `Marker.embed` and `issue_file`.
    """
    marker = marker or load()
    number = registry.allot()
    marked = marker.embed(samples, rate, id_message(number), **options)
    digest = hashlib.sha256(np.ascontiguousarray(marked).tobytes()).digest()
    whole = Fingerprinter(rate)
    whole.push(marked)
    manifest = None if signer is None else sign_digest(digest, SAMPLES_TYPE, Claim(number, origin), signer)
    record = make_record(number, marker, len(marked) / rate, digest.hex(), whole.finish(), manifest, data)
    registry.record(record)
    return marked, Credential(record)


def issue_stream(
    rate: float,
    *,
    registry: Registry,
    origin: Origin,
    signer: Signer | None = None,
    marker: Marker | None = None,
    data: dict[str, Any] | None = None,
    **options: Any,
) -> "IssueStream":
    """Give audio that arrives in blocks an id, which is known at once; the record is made at its end.

    Args:
        rate, options: as for `Marker.open_stream`.
        registry, origin, signer, marker, data: as for `issue_array`.

    Raises:
        IdeawError: as `Marker.open_stream`; the registry cannot be used.
    """
    marker = marker or load()
    number = registry.allot()
    stream = marker.open_stream(rate, id_message(number), **options)
    return IssueStream(stream, number, registry, marker, signer, origin, data)


class IssueStream:
    """A stream that is given an id while it is marked; made by `issue_stream`. One thread at a time may use it."""

    def __init__(
        self,
        stream: EmbedStream,
        number: int,
        registry: Registry,
        marker: Marker,
        signer: Signer | None,
        origin: Origin,
        data: dict[str, Any] | None,
    ) -> None:
        self.id = number
        """The id that the mark carries."""
        self.stream = stream
        """What marks it, with `latency`, `marked_seconds` and `readable`."""
        self.credential: Credential | None = None
        """What was issued; None before the end, or if no samples came."""
        self._registry, self._marker, self._signer, self._origin, self._data = registry, marker, signer, origin, data
        self._digest, self._fingerprinter = hashlib.sha256(), Fingerprinter(stream.rate)
        self._length = 0

    def push(self, block: ArrayLike) -> NDArray[Any]:
        """The marked samples that became final by these next ones; raises what `EmbedStream.push` raises."""
        return self._take(self.stream.push(block))

    def flush(self) -> NDArray[Any]:
        """End the stream: the samples that were still held; then the record is made.

        Raises:
            CredentialError, RegistryError: it cannot be signed or recorded; the last samples are lost then, and those
                before carry an id without a record.
        """
        rest = self._take(self.stream.flush())
        if self._length:
            digest, claim = self._digest.digest(), Claim(self.id, self._origin)
            manifest = None if self._signer is None else sign_digest(digest, SAMPLES_TYPE, claim, self._signer)
            seconds, drawn = self._length / self.stream.rate, self._fingerprinter.finish()
            record = make_record(self.id, self._marker, seconds, digest.hex(), drawn, manifest, self._data)
            self._registry.record(record)
            self.credential = Credential(record)
        return rest

    def run(self, blocks: Iterable[ArrayLike]) -> Iterator[NDArray[Any]]:
        """Mark blocks one after the other, and end the stream."""
        for block in blocks:
            yield self.push(block)
        yield self.flush()

    def _take(self, marked: NDArray[Any]) -> NDArray[Any]:
        if len(marked):
            self._digest.update(np.ascontiguousarray(marked).tobytes())
            self._fingerprinter.push(marked)
            self._length += len(marked)
        return marked


def _check_origin(source: Path, origin: Origin | None, label_producer: str | None, signer: Signer | None) -> None:
    """Raise `CredentialError` if what is to be said of a file contradicts itself."""
    if label_producer is not None and origin != "generated":
        raise CredentialError(
            f"the label {LABEL_NAME} says that audio was generated; say so of this too, or leave it out"
        )
    if origin is None or signer is None:
        return
    with open_audio(source):  # raises for what is no file
        former = read_manifest(source)
    if former.state != "none":
        raise CredentialError(
            f"{source} has a manifest of {former.issuer or 'somebody'} that says how it came to be; leave that "
            "out here, and it is kept as the source's"
        )


def _write_signed(
    marked: Path, final: Path, claim: Claim, signer: Signer | None, target: Path
) -> tuple[bytes | None, bool]:
    """Write a marked file to its last place; returns its manifest, and whether the file holds it."""
    with atomic.file_errors(target):
        if signer is not None:
            with final.open("wb+") as signed:
                manifest = sign_file(marked, signed, claim, signer)
            if manifest is not None:
                _check_signed(final, claim, target)
                return manifest, True
        shutil.copyfile(marked, final)
        if signer is None:
            return None, False
        return sign_digest(sha256_of(final), media_type_of(final), claim, signer), False


def _check_signed(final: Path, claim: Claim, target: Path) -> None:
    """Raise `CredentialError` unless the manifest of a file can be read and fits."""
    written = read_manifest(final)
    if not written.fits or written.record_ids != (claim.record_id,):
        problems = ", ".join(written.problems) or written.state
        raise CredentialError(f"{target}: the manifest cannot be read back from what was written: {problems}")


def make_record(
    number: int,
    marker: Marker,
    seconds: float,
    sha256: str,
    drawn: bytes,
    manifest: bytes | None,
    data: dict[str, Any] | None,
) -> Record:
    """The record of audio that was marked with an id just now; arguments as the fields of `Record`."""
    return Record(
        number,
        datetime.now(UTC),
        written_message(id_message(number)),
        marker.key_fingerprint,
        WIRE_FORMAT,
        marker.card.name,
        seconds,
        sha256,
        drawn,
        manifest,
        data or {},
    )


def _take_back(registry: Registry, record: Record, sidecar: Path | None) -> None:
    """Undo what was done before a file could not get its name."""
    if sidecar is not None:
        sidecar.unlink(missing_ok=True)
    try:
        registry.withdraw(record.id)
    except IdeawError as problem:
        _logger.warning("the record %s of a file that was not written stays: %s", written_id(record.id), problem)


def _first_part_of(progress: Progress) -> Progress:
    return lambda share: progress(MARKING_SHARE * share)
