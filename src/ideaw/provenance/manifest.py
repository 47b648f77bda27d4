"""C2PA manifests: what is said of marked audio, signed; and what is left of it in a file that was found.

The manifest names the id that the mark carries (`c2pa.soft-binding`), so that each of the two layers leads to the
other. Nothing here contacts the network: no time stamps, no remote manifests, no revocation lists.
"""

import base64
import binascii
import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import c2pa

from ideaw.audio.formats import SOUND_CONTAINERS
from ideaw.audio.read import open_audio
from ideaw.errors import CredentialError
from ideaw.provenance.credentials import Signer, parse_certificates
from ideaw.provenance.manifest_store import fresh_label
from ideaw.provenance.records import id_message, message_id

SOFT_BINDING_ALGORITHM = "ideaw.record-id.1"
"""Name of our soft binding: the id of a record in a mark. It is our own; no public list has it."""

Origin: TypeAlias = Literal["generated", "recorded"]
"""How audio came to be: made by a trained model, or taken up with a microphone."""

_SOURCE_TYPES: dict[Origin, str] = {
    "generated": "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia",
    "recorded": "http://cv.iptc.org/newscodes/digitalsourcetype/digitalCapture",
}

_EMBEDDING_TYPES = {
    "WAV": "audio/wav",
    "WAVEX": "audio/wav",
    "FLAC": "audio/flac",
    "MP3": "audio/mpeg",
    "M4A": "audio/mp4",
}
"""Containers that hold a manifest → their media types."""

_OTHER_TYPES = {"OGG": "audio/ogg", "AIFF": "audio/aiff", "MKA": "audio/matroska", "CAF": "audio/x-caf"}
_UNNAMED_TYPE = "application/octet-stream"
STORE_TYPE = "application/c2pa"
"""Media type of a manifest store by itself."""

SIDECAR_SUFFIX = ".c2pa"
"""Extension of a manifest store beside the file that it belongs to."""

MAX_STORE_BYTES = 1 << 26
"""Bytes of a manifest store that are read: its ingredients may have pictures."""

MAX_NAMED_IDS = 16
"""Ids of a manifest that are looked up: anybody may name any number."""

_SETTINGS: dict[str, Any] = {
    "version": 1,
    "verify": {"remote_manifest_fetch": False, "ocsp_fetch": False},
    "core": {"allowed_network_hosts": []},
    "builder": {"thumbnail": {"enabled": False}},
}

_TRUST_FAILURES = {"signingCredential.untrusted", "signingCredential.expired", "claimSignature.outsideValidity"}
"""Failures that say nothing against the content."""

_HASH_FAILURES = {"assertion.dataHash.mismatch", "assertion.bmffHash.mismatch", "assertion.boxesHash.mismatch"}
"""Failures of a manifest that belongs to other bytes."""

_SOURCE_LABEL = "source"

_DAMAGED = (
    c2pa.C2paError.Verify,
    c2pa.C2paError.Decoding,
    c2pa.C2paError.Signature,
    c2pa.C2paError.Manifest,
    c2pa.C2paError.Assertion,
)
"""What the library raises for a manifest store that is none any more."""

ManifestState: TypeAlias = Literal["none", "trusted", "valid", "expired", "tampered", "remote"]


@dataclass(frozen=True)
class Claim:
    """What a manifest says of marked audio.

    Attributes:
        record_id: the id that the mark carries.
        origin: how the audio came to be; None: it was opened and marked, and no more is said.
        source: the file that was marked, whose own manifest, if it has one, is kept as that of an ingredient.
    """

    record_id: int
    origin: Origin | None = None
    source: Path | None = None


@dataclass(frozen=True)
class Manifest:
    """What is known of a file's manifest."""

    state: ManifestState
    """"trusted": valid, and signed under one of the given roots; "valid": signature and content fit, but no given root
    stands for who signed; "expired": the same, by a certificate that has expired since; "tampered": signature or
    content do not fit; "remote": it lies elsewhere and was not asked for; "none"."""
    issuer: str | None = None
    """Organisation or name in the certificate that signed; what somebody calls themselves, unless `state` is
    "trusted"."""
    authority: str | None = None
    """Name of the authority that issued the certificate."""
    record_ids: tuple[int, ...] = ()
    """Ids that it names in a soft binding of ours."""
    origin: str | None = None
    """Digital source type that it claims, such as "trainedAlgorithmicMedia"."""
    problems: tuple[str, ...] = ()
    """C2PA's codes of what does not fit."""
    beside: bool = False
    """Whether it lies in a file of its own."""
    label: str | None = None
    """Its name, which no other manifest has."""

    @property
    def fits(self) -> bool:
        """Whether signature and content fit, whoever signed."""
        return self.state in ("trusted", "valid", "expired")

    @property
    def of_other_bytes(self) -> bool:
        """Whether its signature fits, and the file is not the one that was signed."""
        return self.state == "tampered" and set(self.problems) - _TRUST_FAILURES <= _HASH_FAILURES


NO_MANIFEST = Manifest("none")


def sign_file(marked: Path, signed: BinaryIO, claim: Claim, signer: Signer) -> bytes | None:
    """Write a marked file with its manifest to an empty file, if its container can hold one.

    Args:
        marked: the file to sign.
        signed: what is written.
        claim: what the manifest says.
        signer: who says it.

    Returns:
        The manifest store; None, and nothing written, if the container holds none (`sign_digest` then).

    Raises:
        CredentialError: it cannot be signed.
    """
    media_type = _EMBEDDING_TYPES.get(_container(marked))
    if media_type is None:
        return None
    with _signing_errors(), marked.open("rb") as content:
        return bytes(_builder(claim, media_type, None).sign(_library_signer(signer), media_type, content, signed))


def sign_digest(digest: bytes, media_type: str, claim: Claim, signer: Signer) -> bytes:
    """A manifest store for content that holds none: a file of another format, or samples.

    Args:
        digest: SHA-256 of the content.
        media_type: of the content.
        claim: what the manifest says.
        signer: who says it.

    Raises:
        CredentialError: it cannot be signed.
    """
    with _signing_errors():
        builder = _builder(claim, media_type, digest)
        builder.set_no_embed()
        return bytes(builder.sign(_library_signer(signer), STORE_TYPE, io.BytesIO(), io.BytesIO()))


def media_type_of(path: Path) -> str:
    """The media type of an audio file."""
    container = _container(path)
    return _EMBEDDING_TYPES.get(container) or _OTHER_TYPES.get(container, _UNNAMED_TYPE)


def sidecar_of(path: Path) -> Path:
    """Where the manifest store of a file lies that cannot hold it."""
    return path.with_suffix(SIDECAR_SUFFIX)


def read_manifest(path: Path, roots: bytes | None = None, store: bytes | None = None) -> Manifest:
    """The manifest in a file, or beside it, and whether it fits.

    Args:
        path: the file; whether it is audio does not matter.
        roots: PEM text of the authorities that are trusted (None: none is).
        store: a manifest store from elsewhere (None: that in the file, or else beside it).

    Raises:
        CredentialError: the roots cannot be used.
    """
    beside = False
    with path.open("rb") as content:
        if store is None:
            found = _read(content, None, roots)
            sidecar = sidecar_of(path)
            if found.state != "none" or sidecar == path or not sidecar.is_file():
                return found
            with sidecar.open("rb") as file:
                store, beside = file.read(MAX_STORE_BYTES), True
        content.seek(0)
        return _read(content, store, roots, beside)


def read_store(store: bytes, content: bytes = b"", roots: bytes | None = None) -> Manifest:
    """A manifest store for bytes in memory, such as those of samples; with none, only who signed it is of use."""
    return _read(io.BytesIO(content), store, roots)


def _read(content: BinaryIO, store: bytes | None, roots: bytes | None, beside: bool = False) -> Manifest:
    try:
        with (
            _context(roots) as context,
            c2pa.Reader(None if store is None else STORE_TYPE, content, store, context) as reader,
        ):
            results = (reader.get_validation_results() or {}).get("activeManifest") or {}
            state = reader.get_validation_state()
            described: dict[str, Any] = json.loads(reader.crjson())
            label = json.loads(reader.json())["active_manifest"]
    except _DAMAGED as problem:
        return Manifest("tampered", problems=(" ".join(str(problem).split()),), beside=beside)
    except c2pa.C2paError as problem:
        return Manifest("remote") if str(problem).startswith("Remote") else NO_MANIFEST
    problems = tuple(dict.fromkeys(failure["code"] for failure in results.get("failure", ())))
    active: dict[str, Any] = next((one for one in described["manifests"] if one.get("label") == label), {})
    return _summary(active, _state(state, problems), problems, beside)


def _state(state: str | None, problems: tuple[str, ...]) -> ManifestState:
    if state == "Trusted":
        return "trusted"
    if state == "Valid":
        return "valid"
    expired = bool(problems) and set(problems) <= _TRUST_FAILURES
    return "expired" if expired else "tampered"


def _summary(active: dict[str, Any], state: ManifestState, problems: tuple[str, ...], beside: bool) -> Manifest:
    certificate = active.get("signature", {}).get("certificateInfo", {})
    subject, authority = (certificate.get(name, {}) for name in ("subject", "issuer"))
    ids, origin = [], None
    assertions = active.get("assertions", {}).items()
    for label, assertion in ((label, content) for label, content in assertions if isinstance(content, dict)):
        if label.startswith("c2pa.soft-binding") and assertion.get("alg") == SOFT_BINDING_ALGORITHM:
            ids += [_read_binding(block.get("value")) for block in assertion.get("blocks", ())[:MAX_NAMED_IDS]]
        if label.startswith("c2pa.actions"):
            types = [action.get("digitalSourceType") for action in assertion.get("actions", ())]
            origin = next((text.rpartition("/")[2] for text in types if text), origin)
    return Manifest(
        state,
        subject.get("O") or subject.get("CN"),
        authority.get("CN") or authority.get("O"),
        tuple(dict.fromkeys(number for number in ids[:MAX_NAMED_IDS] if number is not None)),
        origin,
        problems,
        beside,
        active.get("label"),
    )


def written_binding(record_id: int) -> str:
    """An id as the value of a soft binding: its four bytes in base64."""
    return base64.b64encode(id_message(record_id)).decode("ascii")


def _read_binding(value: object) -> int | None:
    try:
        return message_id(base64.b64decode(str(value), validate=True))
    except (ValueError, binascii.Error):
        return None


def _builder(claim: Claim, media_type: str, digest: bytes | None) -> c2pa.Builder:
    opened = {"action": "c2pa.opened", "parameters": {"ingredientIds": [_SOURCE_LABEL]}}
    created = claim.origin and {"action": "c2pa.created", "digitalSourceType": _SOURCE_TYPES[claim.origin]}
    binding = {"scope": {}, "value": written_binding(claim.record_id)}
    assertions: list[dict[str, Any]] = [
        {"label": "c2pa.actions.v2", "data": {"actions": [created or opened, {"action": "c2pa.watermarked.bound"}]}},
        {"label": "c2pa.soft-binding", "data": {"alg": SOFT_BINDING_ALGORITHM, "blocks": [binding]}},
    ]
    if digest is not None:
        hashed = {"alg": "sha256", "hash": list(digest), "name": "all of it", "pad": []}
        assertions.append({"label": "c2pa.hash.data", "data": hashed})
    definition = {
        "claim_generator_info": [{"name": "ideaw", "version": version("ideaw")}],
        "format": media_type,
        "label": fresh_label(claim.record_id),
        "assertions": assertions,
    }
    builder = c2pa.Builder(definition, _context(None))
    if created is None:
        if claim.source is None:
            raise CredentialError("a manifest says how audio came to be; say whether it was generated or recorded")
        with claim.source.open("rb") as source:
            ingredient = {"relationship": "parentOf", "label": _SOURCE_LABEL}
            builder.add_ingredient_from_stream(json.dumps(ingredient), media_type_of(claim.source), source)
    return builder


def _context(roots: bytes | None) -> c2pa.Context:
    if roots is None:
        return c2pa.Context.from_dict(_SETTINGS)
    parse_certificates("what is to be trusted", roots)  # the library passes over what it cannot parse
    return c2pa.Context.from_dict(_SETTINGS | {"trust": {"user_anchors": roots.decode("ascii", "replace")}})


def _library_signer(signer: Signer) -> c2pa.Signer:
    return c2pa.Signer.from_info(c2pa.C2paSignerInfo(signer.algorithm, signer.chain, signer.reveal_key(), None))


@contextmanager
def _signing_errors() -> Iterator[None]:
    """Turn what the library raises into a `CredentialError` of one line."""
    try:
        yield
    except c2pa.C2paError as problem:
        reason = " ".join(str(problem).split())
        raise CredentialError(f"the manifest cannot be signed: {reason}") from problem


def _container(path: Path) -> str:
    with open_audio(path) as opened:
        return SOUND_CONTAINERS.get(opened.encoding.container, opened.encoding.container)


def sha256_of(path: Path) -> bytes:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
