"""Verdicts on found audio: its mark leads to a record, and the record's fingerprint tells whether it is that recording.

A mark alone proves nothing, since it can be copied. A manifest proves who signed these bytes, and is lost with the next
conversion. Together they say where audio comes from, or why that cannot be said.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from ideaw.audio.blocks import Progress
from ideaw.audio.formats import PathLike
from ideaw.audio.read import open_audio
from ideaw.hypotheses import Speeds
from ideaw.keys import Key
from ideaw.layers import ALL_LAYERS, LayersLike
from ideaw.marker import Marker, load
from ideaw.payload.message import Content, Message
from ideaw.provenance.fingerprint import Agreement, compare, file_fingerprint
from ideaw.provenance.manifest import NO_MANIFEST, Manifest, read_manifest, read_store, sha256_of
from ideaw.provenance.records import Record, id_message, message_id, written_id
from ideaw.provenance.registry import Registry
from ideaw.provenance.verdict import Place, Verdict, VerdictStatus
from ideaw.results import Detection

SEARCH_SHARE = 0.9
"""Share of the work, for the sake of its progress; the rest is the fingerprint."""


MAX_TESTED_IDS = 8
"""Ids of a manifest that the deep layer is tested for: one is usual, and anybody can write more."""


class Resolver(Protocol):
    """Leads from an id to its record: a registry here, or a service elsewhere."""

    def by_id(self, id: int) -> Record | None:
        """The record of an id; None if it has none."""


@dataclass(frozen=True)
class RegistryResolver:
    """A registry as a resolver."""

    registry: Registry

    def by_id(self, id: int) -> Record | None:
        """The record of an id; None if it has none."""
        return self.registry.get(id)


def verify_file(
    path: PathLike,
    *,
    registry: Registry | Resolver | None = None,
    marker: Marker | None = None,
    keys: Sequence[Key] | None = None,
    roots: bytes | None = None,
    speeds: Speeds | None = None,
    layers: LayersLike = ALL_LAYERS,
    expected: Sequence[int] = (),
    longest: float | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Say where a file comes from, as far as its mark, its manifest and a registry tell.

    Args:
        path: the audio file.
        registry: leads from the mark's id to its record (None: no id is known).
        marker: model and keys (None: the default model under the public key).
        keys: whose marks are looked for (None: the marker's own).
        roots: PEM text of the authorities whose signatures are trusted (None: none is).
        speeds, layers, longest, progress: as for `Marker.detect_file`.
        expected: ids that the deep layer is tested for by themselves, which reads none in less than 11 s; those that
            the manifest names are tested too.

    Raises:
        AudioError, FileError, IdeawError: as `Marker.detect_file`.
        CredentialError: the roots cannot be used.
        RegistryError: the registry cannot be used.
    """
    path, marker = Path(path), marker or load()
    with open_audio(path):  # what is no audio is said to be none, before its manifest is looked for
        pass
    manifest = read_manifest(path, roots)
    detection = marker.detect_file(
        path,
        keys=keys,
        speeds=speeds,
        layers=layers,
        expected=[id_message(number) for number in dict.fromkeys((*expected, *manifest.record_ids[:MAX_TESTED_IDS]))],
        longest=longest,
        progress=progress and (lambda share: progress(SEARCH_SHARE * share)),
    )
    resolver = RegistryResolver(registry) if isinstance(registry, Registry) else registry
    verdict = _Evidence(path, detection, manifest, resolver).judge()
    if progress:
        progress(1.0)
    return verdict


@dataclass(frozen=True)
class _Match:
    """A record that a mark leads to, and how far the audio agrees with it."""

    record: Record
    agreement: Agreement
    places: tuple[Place, ...]


@dataclass(frozen=True)
class _Evidence:
    """All that is known of a file."""

    path: Path
    detection: Detection
    manifest: Manifest
    resolver: Resolver | None

    def judge(self) -> Verdict:
        """The verdict, by the table in `verdict.py`."""
        if self.detection.status == "unreadable":
            return self._verdict("unreadable", "there is a mark beyond doubt, but its message cannot be read")
        if not self.detection.found:
            return self._judge_unmarked()
        matches = self._matches
        if not matches:
            return self._judge_unknown()
        best = max(matches, key=lambda match: (match.agreement.agrees, bool(match.places), match.agreement.score))
        name, agreement = _named(best.record), best.agreement
        if not agreement.compared_seconds:
            told = f"the mark leads to {name}, but the audio is too short or too quiet to be compared with it"
            return self._verdict("unknown", told, best)
        if agreement.agrees:
            return self._verdict("authentic", f"the mark leads to {name}, and the audio is that recording", best)
        places = tuple(sorted((place for match in matches for place in match.places), key=lambda place: place.start))
        if not places:
            told = f"the mark leads to {name}, but the audio is not that recording: the mark was copied"
            return self._verdict("copied", f"{told}, unless pitch or tempo were changed", best)
        where = ", ".join(
            f"{place.start:.1f}–{place.end:.1f} s" + (f" ({written_id(place.record_id)})" if _several(places) else "")
            for place in places
        )
        told = f"the mark leads to {name}; {where} is what was marked, and the rest is other audio"
        return self._verdict("partial", told, best, places)

    @cached_property
    def _marks(self) -> list[tuple[Content, str | None]]:
        """Messages that were read with the fingerprints of their keys, that of the decision first."""
        first = (self.detection.message, self.detection.key)
        others = [(segment.message, segment.key) for segment in self.detection.segments if segment.message_ok]
        return list(dict.fromkeys((message, key) for message, key in [first, *others] if message is not None))

    @cached_property
    def _matches(self) -> list[_Match]:
        """The records that the marks lead to; a record of another key is none of this mark."""
        if self.resolver is None:
            return []
        matches = []
        for message, key in self._marks:
            number = message_id(message)
            record = None if number is None else self.resolver.by_id(number)
            if record is not None and record.key_fingerprint == key:
                drawn, length = self._fingerprint
                agreement, faster = compare(record.fingerprint, drawn), self.detection.speed * self.detection.tempo
                places = tuple(
                    Place(start / faster, min(end / faster, length), record.id) for start, end in agreement.seconds
                )
                matches.append(_Match(record, agreement, places))
        return matches

    @cached_property
    def _fingerprint(self) -> tuple[bytes, float]:
        """Of the audio at the speed and tempo at which it was marked; and its length in seconds as it is."""
        return file_fingerprint(self.path, self.detection.speed, self.detection.tempo)

    def _judge_unknown(self) -> Verdict:
        message, _ = self._marks[0]
        number = message_id(message)
        if number is None:
            return self._verdict("unknown", f"there is a mark of this key, whose message {Message(message)} is no id")
        name = written_id(number)
        if self.manifest.fits and number in self.manifest.record_ids:
            signed = f"signed by {self._signer} as {name}, which its mark says too; "
            asked = "no registry was asked" if self.resolver is None else "the registry does not know it"
            return self._verdict("signed", signed + asked)
        asked = "no registry was asked what it is" if self.resolver is None else "no record of this key is known for it"
        return self._verdict("unknown", f"there is a mark of this key with the id {name}, and {asked}")

    def _judge_unmarked(self) -> Verdict:
        if not self.manifest.fits:
            return self._verdict("none", "there is no mark of these keys")
        told = f"signed by {self._signer}, but there is no mark of these keys"
        for number in self.manifest.record_ids:
            record = None if self.resolver is None else self.resolver.by_id(number)
            same = record is not None and record.sha256 == sha256_of(self.path).hex()
            told += f"; it names {written_id(number)}" + (", of which this is the very file" if same else "")
        return self._verdict("unmarked", told)

    @property
    def _signer(self) -> str:
        """Who signed the file's manifest, and what that is worth."""
        issuer = self.manifest.issuer or "somebody without a name"
        if self.manifest.state == "trusted":
            return f"{issuer} (trusted: {self.manifest.authority})"
        expired = ", certificate expired since" if self.manifest.state == "expired" else ""
        return f"{issuer} (not among the trusted roots{expired})"

    def _verdict(
        self,
        status: VerdictStatus,
        told: str,
        match: _Match | None = None,
        places: tuple[Place, ...] | None = None,
    ) -> Verdict:
        record = None if match is None else match.record
        issued = None if record is None or record.manifest is None else read_store(record.manifest)
        if issued is not None:
            said = issued
        elif self.manifest.state == "trusted" or (record is None and self.manifest.fits):
            said = self.manifest
        else:
            said = NO_MANIFEST  # anybody can sign a file whose mark leads to a record
        note = "" if status in ("signed", "unmarked") else self._manifest_note(record, issued)
        segments = places if places is not None else () if match is None else match.places
        score = None if match is None else match.agreement.score
        return Verdict(
            status, told + note, record, said.issuer, segments, self.detection, self.manifest, score, said.origin
        )

    def _manifest_note(self, record: Record | None, issued: Manifest | None) -> str:
        """What the manifest adds to the reason; `issued` is that of the record."""
        manifest = self.manifest
        if manifest.state == "none":
            return (
                "; its manifest was stripped" if issued is not None else "" if record is not None else "; no manifest"
            )
        if manifest.state == "remote":
            return "; its manifest lies elsewhere, and was not asked for"
        if manifest.of_other_bytes:
            named = record is not None and record.id in manifest.record_ids
            whose = "the file was changed after it was signed" if named else "it was signed for other content"
            return f"; its manifest does not fit: {whose}"
        if not manifest.fits:
            return "; its manifest is damaged or forged"
        if record is not None and record.id in manifest.record_ids:
            anew = "" if issued is not None and issued.label == manifest.label else " anew, not as it was issued,"
            return f"; signed{anew} by {self._signer}"
        says = "may name another mark" if self.detection.status == "unreadable" else "does not name this mark"
        return f"; its manifest, signed by {self._signer}, {says}"


def _named(record: Record) -> str:
    return f"the record {written_id(record.id)} of {record.created:%Y-%m-%d}"


def _several(places: Sequence[Place]) -> bool:
    return len({place.record_id for place in places}) > 1
