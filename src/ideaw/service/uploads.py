"""Forms as they arrive: audio goes piece by piece into files of a private folder, everything else is small and checked.

Names in an upload are never used as paths. Of a name, only a known extension is kept, since a few formats (bare AAC,
MP3 behind garbage) are not known by their content alone.
"""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, BinaryIO, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError, WithJsonSchema
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from ideaw.audio.formats import EXTENSIONS
from ideaw.errors import error_reason
from ideaw.service.metrics import Metrics
from ideaw.service.refusals import Refusal, busy
from ideaw.service.settings import Limits

MAX_FORM_PARTS = 16
MAX_FIELD_BYTES = 1 << 16
"""Bytes of a part that is not audio; the longest message that could be marked is shorter."""

MAX_PART_HEADER_BYTES = 1 << 12
"""Of one header of a part; newer parsers have a bound of their own."""

READ_SUFFIXES = (*EXTENSIONS, ".aac")

Form = TypeVar("Form", bound=BaseModel)


@dataclass(frozen=True)
class Upload:
    """A file that arrived: where it lies, and what the client calls it."""

    path: Path
    name: str


@dataclass(frozen=True)
class Text:
    """A small file: what is in it, and what the client calls it, if that is known."""

    content: str
    name: str | None


Audio = Annotated[Upload, WithJsonSchema({"type": "string", "format": "binary"})]
SmallFile = Annotated[Text, WithJsonSchema({"type": "string", "maxLength": MAX_FIELD_BYTES})]
"""Fields of forms: audio, and small files such as keys."""


class Receiver:
    """Receives forms: a bounded number at the same time, and bounded what lies on the disk, answers too."""

    def __init__(self, parent: Path, limits: Limits, metrics: Metrics) -> None:
        """Files lie in folders under `parent`."""
        self._parent, self._limits, self._metrics = parent, limits, metrics
        self._open = 0
        self._held_bytes = 0

    @contextlib.contextmanager
    def hold(self, num_bytes: int) -> Iterator[None]:
        """Count an answer among what lies on the disk, as long as it does; raise a `Refusal` if that is too much."""
        self._held_bytes += num_bytes
        try:
            if self._held_bytes > self._limits.held_bytes:
                raise busy("too much is being sent at once; try again later")
            yield
        finally:
            self._held_bytes -= num_bytes

    def check_folder(self) -> None:
        """Raise a `Refusal` if the folder is gone, as after a cleaner of temporary files; only a new start mends it."""
        if not self._parent.is_dir():
            raise busy("the folder for uploads is gone; start the service anew")

    @contextlib.asynccontextmanager
    async def receive(self, request: Request, kind: type[Form]) -> AsyncIterator[Form]:
        """The form that a request brings, whose files lie in a folder of their own until the `async with` ends.

        Raises:
            Refusal: it is too large, too slow, broken, not what is asked for, or too many arrive at the same time.
        """
        boundary = self._boundary(request)
        with _form_errors():
            parts = _Parts(Path(tempfile.mkdtemp(dir=self._parent)), kind)
        try:
            with self._counted():
                await self._feed(request, boundary, parts)
            yield check_fields(kind, parts.values)
        finally:
            self._held_bytes -= parts.held.num_bytes
            shutil.rmtree(parts.folder, ignore_errors=True)

    @contextlib.asynccontextmanager
    async def receive_file(self, request: Request, suffix: str) -> AsyncIterator[Path]:
        """A body that is a file by itself, in a folder of its own until the `async with` ends; refuses as `receive`.

        Args:
            request: brings it.
            suffix: what the file's name ends with.
        """
        self._check_declared(request)
        with _form_errors():
            folder = Path(tempfile.mkdtemp(dir=self._parent))
        held = _Held()
        try:
            path = folder / f"1{suffix}"
            with self._counted(), _form_errors(), path.open("xb") as file:
                async for piece in self._held_pieces(request, held):
                    file.write(piece)
            yield path
        finally:
            self._held_bytes -= held.num_bytes
            shutil.rmtree(folder, ignore_errors=True)

    async def receive_text(self, request: Request) -> bytes:
        """A small body, in memory; refuses what is larger than a field of a form, or too slow."""
        content = bytearray()
        with self._counted():
            async for piece in self._pieces(request):
                content += piece
                if len(content) > MAX_FIELD_BYTES:
                    line = f"more than {MAX_FIELD_BYTES} bytes are not taken here"
                    raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, line)
        return bytes(content)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        if self._open >= self._limits.uploads:
            raise busy("too many uploads arrive at once; try again later")
        self._open += 1
        with self._metrics.uploads.track_inprogress():
            try:
                yield
            finally:
                self._open -= 1

    def _check_declared(self, request: Request) -> None:
        declared = request.headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > self._limits.bytes:
            raise self._too_large()

    def _boundary(self, request: Request) -> bytes:
        self._check_declared(request)
        kind, options = parse_options_header(request.headers.get("content-type"))
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the fields as multipart/form-data")
        return options[b"boundary"]

    async def _feed(self, request: Request, boundary: bytes, parts: "_Parts") -> None:
        """Take a body apart that comes neither too large nor too slowly."""
        with contextlib.closing(parts), _form_errors():
            parser = MultipartParser(boundary, parts.callbacks())
            async for piece in self._held_pieces(request, parts.held):
                parser.write(piece)
        if not parts.ended:
            raise Refusal(HTTPStatus.BAD_REQUEST, "the form is broken: it ends too early")

    async def _held_pieces(self, request: Request, held: "_Held") -> AsyncIterator[bytes]:
        """A body that is counted while it comes, of a bounded size."""
        async for piece in self._pieces(request):
            held.num_bytes += len(piece)
            self._held_bytes += len(piece)
            if held.num_bytes > self._limits.bytes:
                raise self._too_large()
            if self._held_bytes > self._limits.held_bytes:
                raise busy("too much is being sent at once; try again later")
            yield piece

    async def _pieces(self, request: Request) -> AsyncIterator[bytes]:
        """A body, as long as it comes with the least rate and is never silent for long."""
        received, began, limits = 0, time.monotonic(), self._limits
        stream = request.stream()
        while True:
            earned = began + received / limits.bytes_per_second - time.monotonic()
            try:
                async with asyncio.timeout(limits.patience_seconds + min(0.0, earned)):
                    piece = await anext(stream, None)
            except TimeoutError:
                raise Refusal(HTTPStatus.REQUEST_TIMEOUT, "the upload comes too slowly") from None
            if piece is None:
                return
            received += len(piece)
            yield piece

    def _too_large(self) -> Refusal:
        line = f"more than {self._limits.bytes / 1e6:g} MB are not taken; send a shorter or compressed file"
        return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, line)


@contextlib.contextmanager
def _form_errors() -> Iterator[None]:
    """Turn what the parser raises, or a full disk, into a refusal."""
    try:
        yield
    except FormParserError:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the form is broken: it is not multipart/form-data") from None
    except OSError as problem:
        raise busy(f"uploads cannot be stored now: {error_reason(problem)}") from None


@dataclass
class _Held:
    """How much of a body lies on the disk."""

    num_bytes: int = 0


def check_fields(kind: type[Form], values: dict[str, list[Any]]) -> Form:
    """The fields as the form wants them, of each all that was sent; raise a `Refusal` for what it does not take."""
    repeated = {name for name, field in kind.model_fields.items() if get_origin(field.annotation) is list}
    for name, sent in values.items():
        if len(sent) > 1 and name not in repeated:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the field {name!r} is given {len(sent)} times; give it once")
    try:
        return kind.model_validate({name: sent if name in repeated else sent[0] for name, sent in values.items()})
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the field {place!r}: {first['msg'].lower()}") from None


def _mentions(annotation: object, kind: type) -> bool:
    """Whether a field is of this kind, or holds several, or need not be given."""
    return annotation is kind or any(_mentions(part, kind) for part in get_args(annotation))


class _Parts:
    """The parts of a form while they come in: audio to files, small files and plain fields to memory."""

    def __init__(self, folder: Path, kind: type[BaseModel]) -> None:
        annotations = {name: field.annotation for name, field in kind.model_fields.items()}
        self._audio = {name for name, annotation in annotations.items() if _mentions(annotation, Upload)}
        self._small_files = {name for name, annotation in annotations.items() if _mentions(annotation, Text)}
        self.folder = folder
        self.values: dict[str, list[Any]] = {}
        self.ended = False
        self.held = _Held()
        self._count = 0
        self._header, self._value = bytearray(), bytearray()
        self._disposition: dict[bytes, bytes] = {}
        self._file: BinaryIO | None = None
        self._upload: Upload | None = None
        self._content = bytearray()

    def callbacks(self) -> Any:
        """What the parser calls."""
        names = (
            "part_begin",
            "part_data",
            "part_end",
            "header_field",
            "header_value",
            "header_end",
            "headers_finished",
        )
        found: dict[str, Callable[..., None]] = {f"on_{name}": getattr(self, f"_{name}") for name in names}
        return found | {"on_end": self._end}

    def close(self) -> None:
        """Close the file that is being written."""
        if self._file is not None:
            self._file.close()

    def _part_begin(self) -> None:
        self._count += 1
        if self._count > MAX_FORM_PARTS:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"a form of more than {MAX_FORM_PARTS} parts is not taken")
        self._disposition, self._content = {}, bytearray()
        self._file = self._upload = None

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]
        self._check_header()

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._check_header()

    def _check_header(self) -> None:
        if len(self._header) + len(self._value) > MAX_PART_HEADER_BYTES:
            raise Refusal(HTTPStatus.BAD_REQUEST, "a part of the form has a header that is too long")

    def _header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            _, self._disposition = parse_options_header(bytes(self._value))
        self._header, self._value = bytearray(), bytearray()

    def _headers_finished(self) -> None:
        if b"name" not in self._disposition:
            raise Refusal(HTTPStatus.BAD_REQUEST, "a part of the form has no name")
        if self._field() in self._audio:
            name = self._file_name() or "audio"
            suffix = PurePosixPath(name).suffix.lower()
            path = self.folder / f"{self._count}{suffix if suffix in READ_SUFFIXES else ''}"
            self._file, self._upload = path.open("xb"), Upload(path, name)

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.write(data[start:end])  # to the page cache, which takes less time than handing it to a thread
            return
        self._content += data[start:end]
        if len(self._content) > MAX_FIELD_BYTES:
            line = f"the field {self._field()!r} is longer than {MAX_FIELD_BYTES} bytes"
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, line)

    def _part_end(self) -> None:
        if self._file is not None:
            self._file.close()
        self.values.setdefault(self._field(), []).append(self._upload or self._text())

    def _text(self) -> str | Text:
        try:
            content = self._content.decode()
        except UnicodeDecodeError:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the field {self._field()!r} is not UTF-8") from None
        return Text(content, self._file_name()) if self._field() in self._small_files else content

    def _end(self) -> None:
        self.ended = True

    def _field(self) -> str:
        return self._disposition[b"name"].decode(errors="replace")

    def _file_name(self) -> str | None:
        """The last part of what the client calls the file, whatever its system's paths look like."""
        given = self._disposition.get(b"filename", b"").decode(errors="replace").replace("\\", "/")
        return PurePosixPath(given).name or None
