"""What a worker is asked to do, and how it does it: one function of the engine for each route, on files in a folder.

Jobs and answers are values that go through a pipe as JSON. Paths are the service's own, never a client's; in an error
the file is called what the client knows it as.
"""

import logging
import os
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from ideaw.audio.formats import Encoding
from ideaw.audio.read import Recording, Source, open_audio
from ideaw.audio.samples import check_source
from ideaw.audio.spool import extension_for
from ideaw.audio.write import create_audio, write_audio
from ideaw.errors import AudioError, FileError, IdeawError, RegistryError, TooLongError
from ideaw.hypotheses import Speeds
from ideaw.keys import PUBLIC, Key
from ideaw.marker import Marker, load
from ideaw.payload.message import Message, Notation
from ideaw.quality.comparison import compare_recordings
from ideaw.results import detection_as_json
from ideaw.service.presets import PLAYGROUND
from ideaw.service.refusals import NO_REGISTRY

PLAIN_FLOAT = Encoding("WAV", "FLOAT")
"""How audio is sent to be drawn and played: every sample as it was decoded."""


class NamedKey(msgspec.Struct, frozen=True):
    """A key in hexadecimal digits, and what its owner calls it."""

    digits: str
    name: str | None = None

    def __repr__(self) -> str:
        return f"<key {self.name}>"


class Embed(msgspec.Struct, frozen=True, tag=True):
    """Mark `source` as a file beside it; the answer has its name and its length in seconds."""

    source: str
    message: str
    kind: Notation
    key: NamedKey | None
    snr: float | None
    audibility: float | None
    longest: float


class Detect(msgspec.Struct, frozen=True, tag=True):
    """Search `source`; the answer is that of `ideaw detect --json`."""

    source: str
    keys: list[NamedKey]
    speeds: Speeds
    longest: float
    min_check_bits: int = 0


class Compare(msgspec.Struct, frozen=True, tag=True):
    """Compare two files; the answer is that of `ideaw compare --json`."""

    original: str
    marked: str
    longest: float
    values: int


class Attack(msgspec.Struct, frozen=True, tag=True):
    """Attack `source`; the answer has the name of a WAV file beside it."""

    source: str
    attack: str
    longest: float
    values: int


class Preview(msgspec.Struct, frozen=True, tag=True):
    """Decode `source`; the answer has the name of a WAV file beside it, the rate and the number of channels."""

    source: str
    longest: float
    values: int


class MatchContent(msgspec.Struct, frozen=True, tag=True):
    """Look for the manifests of `source` in a registry; the answer has them, the most similar first."""

    source: str
    keys: list[NamedKey]
    hints: list[int]
    longest: float
    registry: str


class MatchFingerprint(msgspec.Struct, frozen=True, tag=True):
    """Compare a fingerprint with a record of a registry; the answer has its manifest, if there is one."""

    binding: bytes
    registry: str


class Verify(msgspec.Struct, frozen=True, tag=True):
    """Say where `source` comes from; the answer is that of `ideaw verify --json`."""

    source: str
    keys: list[NamedKey]
    speeds: Speeds
    longest: float
    registry: str
    trusted: str | None


class Issue(msgspec.Struct, frozen=True, tag=True):
    """Give `source` an id, as a file beside it; the answer has its name, the id, and the label of its manifest.

    `sign` are the files of a certificate and its key; `producer` is who generates, for China's label.
    """

    source: str
    key: NamedKey | None
    origin: Literal["generated", "recorded"] | None
    producer: str | None
    data: dict[str, Any]
    longest: float
    registry: str
    sign: tuple[str, str] | None


Job = Embed | Detect | Compare | Attack | Preview | MatchContent | MatchFingerprint | Verify | Issue


class Done(msgspec.Struct, frozen=True, tag=True):
    """The answer of a job."""

    answer: dict[str, Any]


class Refused(msgspec.Struct, frozen=True, tag=True):
    """What was wrong with what the client sent, as a status of HTTP and one line."""

    status: int
    line: str


Outcome = Done | Refused

_NO_MEMORY = Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "this audio needs more memory than one request may use")


class Engine:
    """A model, ready to do jobs on one thread."""

    def __init__(self, model: str | None) -> None:
        self._network = load(model, threads=1).network

    def do(self, job: Job) -> Outcome:
        """Do a job; what the client can mend becomes a refusal."""
        try:
            return Done(self._do(job))
        except IdeawError as problem:
            return _NO_MEMORY if isinstance(problem.__cause__, MemoryError) else _refused(problem, job)
        except MemoryError:
            return _NO_MEMORY

    def _do(self, job: Job) -> dict[str, Any]:
        match job:
            case Embed():
                return self._embed(job)
            case Detect():
                return self._detect(job)
            case Compare():
                return _compare(job)
            case Attack():
                return _attack(job)
            case Preview():
                return _preview(job)
            case MatchContent() | MatchFingerprint() | Verify() | Issue():
                from ideaw.service import credential_jobs  # which needs packages that only a registry needs

                return credential_jobs.do(job, self._network)

    def _embed(self, job: Embed) -> dict[str, Any]:
        message = Message.written(job.message, job.kind).content
        source = Path(job.source)
        with open_audio(source) as opened:
            check_length(opened, job.longest)
            target = source.with_name(f"marked{extension_for(opened.encoding, source.suffix)}")
        marker = Marker(self._network, PUBLIC if job.key is None else Key.of(job.key.digits))
        # The page looks for the mark itself, and shows audio in which it is not found; clients ask for a detection.
        marker.embed_file(
            source,
            target,
            message,
            snr=job.snr,
            audibility=job.audibility,
            longest=job.longest,
            verify=False,
            over=True,
        )
        return {"file": target.name}

    def _detect(self, job: Detect) -> dict[str, Any]:
        named = {Key.of(key.digits): key.name for key in job.keys} or {PUBLIC: None}
        with open_audio(job.source) as opened:
            check_length(opened, job.longest)
        marker = Marker(self._network)
        found = marker.detect_file(
            job.source,
            keys=list(named),
            speeds=job.speeds,
            min_check_bits=job.min_check_bits,
            longest=job.longest,
        )
        return detection_as_json(found, {key.fingerprint: name for key, name in named.items()})


def _compare(job: Compare) -> dict[str, Any]:
    original, marked = (_read(path, job.longest, job.values) for path in (job.original, job.marked))
    return compare_recordings(original, marked, (job.original, job.marked)).as_json()


def _attack(job: Attack) -> dict[str, Any]:
    recording = _read(job.source, job.longest, job.values)
    check_source(recording.rate, recording.samples.shape[1], len(recording.samples))
    attacked = PLAYGROUND[job.attack].apply(recording.samples, recording.rate)
    target = Path(job.source).with_name("attacked.wav")
    write_audio(target, attacked, recording.rate, PLAIN_FLOAT)
    return {"file": target.name}


def _preview(job: Preview) -> dict[str, Any]:
    target = Path(job.source).with_name("preview.wav")
    with open_audio(job.source) as opened:
        with create_audio(target, opened.rate, opened.channels, PLAIN_FLOAT) as write:
            for block in _bounded(opened, job.longest, job.values):
                write(block)
        return {"file": target.name, "rate": opened.rate, "channels": opened.channels}


def _read(path: str, longest: float, values: int) -> Recording:
    """A whole file, of a bounded length."""
    with open_audio(path) as opened:
        content = bytearray()
        for block in _bounded(opened, longest, values):
            content += block.data
    samples = np.frombuffer(content, np.float64).reshape(-1, opened.channels)
    return Recording(samples, opened.rate, opened.encoding)


def _bounded(opened: Source, longest: float, values: int) -> Iterator[NDArray[np.float64]]:
    """The blocks of a file, as long as they are no more than is taken on; a header that claims more is believed."""
    most = min(longest, values / (opened.channels * opened.rate))
    check_length(opened, most)
    count = 0
    for block in opened.blocks():
        count += len(block)
        if count > most * opened.rate:
            raise _too_long(most)
        yield block
    if not count:
        raise AudioError("the audio holds no samples")


def check_length(opened: Source, longest: float) -> None:
    """Raise `TooLongError` for a file that claims to be longer than so many seconds."""
    if opened.num_samples is not None and opened.num_samples > longest * opened.rate:
        raise _too_long(longest)


def _too_long(longest: float) -> TooLongError:
    return TooLongError(f"the audio is longer than the {longest:.0f} s that are taken at most here; cut it")


def _refused(problem: IdeawError, job: Job) -> Refused:
    """What HTTP calls it: too long, not audio, audio that cannot be used, or anything else that was asked wrongly."""
    match problem:
        case RegistryError():
            logging.getLogger("ideaw.service").warning("%s", problem)
            return Refused(HTTPStatus.SERVICE_UNAVAILABLE, NO_REGISTRY)
        case TooLongError():
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        case FileError():
            status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        case AudioError():
            status = HTTPStatus.UNPROCESSABLE_ENTITY
        case _:
            status = HTTPStatus.BAD_REQUEST
    return Refused(status, _without_paths(str(problem), job))


def _without_paths(line: str, job: Job) -> str:
    """An error that names files as the client knows them."""
    for part, name in {"source": "the file", "original": "the original", "marked": "the marked file"}.items():
        path = getattr(job, part, None)
        if path is not None:
            line = line.replace(path, name).replace(f"{Path(path).parent}{os.sep}", "")
    return line
