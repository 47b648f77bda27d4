"""Ids for answers that pass through: each gets one, and a record of what was sent once it ends.

A whole file gets its manifest inside, if it is asked for. What streams through is signed by its digest when it is over;
that manifest is kept by the registry alone.
"""

import hashlib
import logging
import tempfile
import threading
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike, NDArray

from ideaw.errors import CredentialError
from ideaw.marker import Marker
from ideaw.provenance.credentials import Signer
from ideaw.provenance.fingerprint import Fingerprinter
from ideaw.provenance.issue import make_record
from ideaw.provenance.manifest import Claim, sign_digest, sign_file
from ideaw.provenance.records import id_message, written_id
from ideaw.provenance.registry import Registry
from ideaw.streams import EmbedStream

MAX_WHOLE_BYTES = 1 << 26
"""Of an answer that is held whole to be signed."""

SIGNED_FORMATS = ("wav", "mp3", "flac")
"""Formats of answers whose files hold a manifest."""

_logger = logging.getLogger(__name__)


class Issuer:
    """Gives ids to answers.

    Args:
        registry: allots them and keeps the records.
        marker: marks the answers.
        signer: signs manifests that say that the audio was generated (None: there are none).
    """

    def __init__(self, registry: Registry, marker: Marker, signer: Signer | None) -> None:
        self.registry, self.marker, self.signer = registry, marker, signer

    def begin(self) -> "IssuedAnswer":
        """An answer with a new id; raises `RegistryError` if there is none to be had."""
        return IssuedAnswer(self, self.registry.allot())


class IssuedAnswer:
    """One answer: what is heard and sent of it. One thread marks at a time; another may record."""

    def __init__(self, issuer: Issuer, number: int) -> None:
        self.id = written_id(number)
        self.recorded = False
        self._issuer, self._number = issuer, number
        self._digest = hashlib.sha256()
        self._heard: _HeardStream | None = None
        self._manifest: bytes | None = None
        self._lock = threading.Lock()

    def open_stream(self, rate: int, **options: Any) -> "_HeardStream":
        """A stream that marks this answer; arguments as for `Marker.open_stream`."""
        stream = self._issuer.marker.open_stream(rate, id_message(self._number), **options)
        self._heard = _HeardStream(stream, self._lock)
        return self._heard

    def count(self, sent: bytes) -> None:
        """Take note of what is sent next."""
        with self._lock:
            self._digest.update(sent)

    def sign_whole(self, content: bytes) -> bytes:
        """A marked file with its manifest in it; as it is where it cannot be signed so, and a line of log says why."""
        signer = self._issuer.signer
        assert signer is not None
        with tempfile.TemporaryDirectory(prefix="ideaw-proxy-") as folder:
            plain, signed = Path(folder, "plain"), Path(folder, "signed")
            plain.write_bytes(content)
            try:
                with signed.open("wb+") as file:
                    self._manifest = sign_file(plain, file, Claim(self._number, "generated"), signer)
            except CredentialError as problem:
                _logger.warning("the answer %s is signed beside: %s", self.id, problem)
            return content if self._manifest is None else signed.read_bytes()

    @property
    def holds_manifest(self) -> bool:
        """Whether the manifest is in the file."""
        return self._manifest is not None

    def record(self, media_type: str, complete: bool = True) -> None:
        """Keep the record of what was sent, if it held any samples.

        Args:
            media_type: of the answer.
            complete: whether it came to its end.

        Raises:
            RegistryError, CredentialError: it cannot be kept, or not be signed.
        """
        with self._lock:
            heard, signer = self._heard, self._issuer.signer
            if heard is None or not heard.length:
                return
            digest, manifest = self._digest.digest(), self._manifest
            if manifest is None and signer is not None:
                manifest = sign_digest(digest, media_type, Claim(self._number, "generated"), signer)
            seconds, fingerprint = heard.length / heard.rate, heard.finish()
            data = {} if complete else {"broken_off": True}
            self._issuer.registry.record(
                make_record(self._number, self._issuer.marker, seconds, digest.hex(), fingerprint, manifest, data)
            )
            self.recorded = True


class _HeardStream:
    """A stream whose marked samples are fingerprinted as they pass."""

    def __init__(self, stream: EmbedStream, lock: threading.Lock) -> None:
        self.rate, self.length = stream.rate, 0
        self._stream, self._fingerprinter, self._lock = stream, Fingerprinter(stream.rate), lock

    def push(self, block: ArrayLike) -> NDArray[Any]:
        return self._hear(self._stream.push(block))

    def flush(self) -> NDArray[Any]:
        return self._hear(self._stream.flush())

    def finish(self) -> bytes:
        """The fingerprint."""
        return self._fingerprinter.finish()

    def _hear(self, marked: NDArray[Any]) -> NDArray[Any]:
        if len(marked):
            with self._lock:
                self._fingerprinter.push(marked)
                self.length += len(marked)
        return marked
