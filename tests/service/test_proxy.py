"""The proxy over real HTTP: in front of the example speech server, and of a server with odd answers."""

import contextlib
import gzip
import io
import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import numpy as np
import pytest
import soundfile as sf
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.errors import AudioError
from ideaw.service.proxy.app import AAC_LATENCY_SECONDS, COMPRESSED_LATENCY_SECONDS
from ideaw.service.proxy.marking import ByteMarker, CompressedMarker, PcmMarker, WavMarker
from ideaw.service.proxy.transcode import Decoder, Encoder

from .conftest import PATIENCE_SECONDS, Running, started, wait_until

pytestmark = pytest.mark.xdist_group("proxy")

EXAMPLE = Path(__file__).parents[2] / "examples" / "speech_server.py"
RATE = 24_000
MAX_DELAY_SECONDS = 0.2
MAX_BITRATE_CHANGE = 0.25
PRIMING_SAMPLES = {"mp3": 1105, "aac": 1024, "opus": 0, "flac": 0}
"""Samples by which an encoder shifts what it is given."""

SENTENCE = "The quick brown fox jumps over the lazy dog, and then it sleeps."

needs_espeak = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(threads=1)


@pytest.fixture(scope="module")
def spoken_24k(speech: NDArray[np.float32]) -> NDArray[np.int16]:
    """Three seconds at 24 kHz."""
    return np.rint(32_767 * soxr.resample(speech[:48_000], 16_000, RATE)).astype(np.int16)


def decoded(data: bytes, name: str) -> tuple[NDArray[Any], int]:
    """(n, channels) and the rate."""
    if name == "pcm":
        return np.frombuffer(data, np.int16)[:, None], RATE
    if name in ("wav", "mp3"):
        samples, rate = sf.read(io.BytesIO(data), dtype="float32", always_2d=True)
        return samples, rate
    decoder = Decoder(name)
    samples = np.concatenate([*decoder.push(data), *decoder.finish()])
    return samples, decoder.rate


# Bytes of every format


def encoded(name: str, samples: NDArray[np.int16], rate: int = RATE) -> list[bytes]:
    """(n, channels) in pieces, as they come from an encoder that is given 20 ms at a time."""
    if name != "flac":
        samples = samples / np.float32(32_768)
    encoder = Encoder(name, rate, samples.shape[1], samples.dtype, 64)
    pieces = [encoder.push(samples[start : start + rate // 50]) for start in range(0, len(samples), rate // 50)]
    return [*filter(None, pieces), encoder.finish()]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "channels"), [("mp3", 1), ("aac", 2), ("opus", 1), ("flac", 2)])
def test_compressed_audio_is_marked_as_it_comes(
    marker: ideaw.Marker, spoken_24k: NDArray[np.int16], name: str, channels: int
) -> None:
    rate = 48_000 if name == "opus" else RATE
    samples = np.repeat(soxr.resample(spoken_24k[:, None], RATE, rate), channels, axis=1)
    latency = AAC_LATENCY_SECONDS if name == "aac" else COMPRESSED_LATENCY_SECONDS
    marking = CompressedMarker(partial(marker.open_stream, message="ab12", latency=latency), name)
    before, after, given, came, longest, out = Decoder(name), Decoder(name), 0, 0, 0, b""
    pieces = encoded(name, samples, rate)
    for piece in pieces:
        given += sum(map(len, before.push(piece)))
        marked = marking.push(piece)
        out += marked
        came += sum(map(len, after.push(marked)))
        longest = max(longest, given - came)
    out += marking.finish()
    assert (longest + PRIMING_SAMPLES[name]) / rate <= MAX_DELAY_SECONDS
    result, result_rate = decoded(out, name)
    assert result.shape[1] == channels
    assert result_rate == rate
    assert len(result) / rate == pytest.approx(len(samples) / rate, abs=0.2)
    assert marker.detect(result, rate).message == "ab12"
    assert len(out) == pytest.approx(sum(map(len, pieces)), rel=MAX_BITRATE_CHANGE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("subtype", "channels"),
    [("PCM_U8", 1), ("PCM_16", 2), ("PCM_24", 1), ("PCM_24", 2), ("PCM_32", 1), ("FLOAT", 1), ("DOUBLE", 1)],
)
def test_wav_keeps_all_but_its_samples(
    marker: ideaw.Marker, speech: NDArray[np.float32], subtype: str, channels: int
) -> None:
    file = io.BytesIO()
    # Three seconds: of two seconds of 8 bits a third of all messages can be read.
    loud = np.repeat(speech[:48_000, None], channels, 1) / np.abs(speech).max()
    sf.write(file, loud, 16_000, format="WAV", subtype=subtype)
    data = file.getvalue() + b"LIST\x04\0\0\0abcd"
    for size in (997, len(data)):
        marking = WavMarker(partial(marker.open_stream, message="ab12", snr=20 if subtype == "PCM_U8" else 30))
        pieces = [marking.push(data[start : start + size]) for start in range(0, len(data), size)]
        out = b"".join([*pieces, marking.finish()])
        assert len(out) == len(data)
        assert (out[:44], out[-12:]) == (data[:44], data[-12:])
        samples, rate = sf.read(io.BytesIO(out), dtype="float64")
        assert marker.detect(samples, rate).message == "ab12"


def test_samples_that_are_cut_anywhere_are_whole_again(marker: ideaw.Marker, spoken_24k: NDArray[np.int16]) -> None:
    data, outs = spoken_24k.tobytes() + b"\x07", []
    for size in (1, 999, len(data)):
        marking = PcmMarker(partial(marker.open_stream, message="ab12"), RATE)
        pieces = [marking.push(data[start : start + size]) for start in range(0, len(data[:9_001]), size)]
        outs.append(b"".join(pieces)[:4_000])
    assert outs[0] == outs[1] == outs[2]
    assert len(outs[0]) == 4_000
    assert marking.finish()[-1:] == b"\x07"


def _marked(marking: ByteMarker, data: bytes) -> bytes:
    return marking.push(data) + marking.finish()


@pytest.mark.parametrize("name", ["wav", "mp3", "aac", "opus", "flac"])
@pytest.mark.parametrize("data", [b"", b"\0", b"{}" * 40, b"RIFF\0\0\0\0WAVEdata\4\0\0\0abcd", b"fLaC" + b"\xff" * 99])
def test_what_is_no_audio_is_refused_or_nothing(marker: ideaw.Marker, name: str, data: bytes) -> None:
    opening = partial(marker.open_stream, message="ab12")
    marking: ByteMarker = WavMarker(opening) if name == "wav" else CompressedMarker(opening, name)
    if name == "wav" and len(data) < 2:
        assert marking.push(data) + marking.finish() == data
        return
    if name == "wav" and data.startswith(b"RIFF"):
        data = data.replace(b"WAVE", b"WAVEfmt \x10\0\0\0" + b"\x55" * 16)
    with pytest.raises(AudioError) as problem:
        _marked(marking, data + b"\0" * 12 * (name == "wav"))
    assert "\n" not in str(problem.value)


# In front of the example server


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The example server, which marks nothing."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with started(tmp_path_factory.mktemp("example"), EXAMPLE, "--port", port, "--message", "") as running:
        wait_until(lambda: _answers(running), "the example server answers")
        yield running


def _answers(running: Running) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return running.client.get("/v1/models").status_code == 200
    return False


def proxy(folder: Path, address: str) -> contextlib.AbstractContextManager[Running]:
    return started(folder, "-m", "ideaw", "proxy", "--upstream", address, "-m", "ab12", "--port", "0")


def speak(running: Running, response_format: str, **headers: str) -> httpx.Response:
    body = {"input": SENTENCE, "model": "tts-1", "voice": "en", "response_format": response_format}
    return running.client.post("/v1/audio/speech", json=body, headers=headers).raise_for_status()


@needs_espeak
@pytest.mark.slow
def test_every_format_of_a_speech_server_is_marked(upstream: Running, marker: ideaw.Marker, tmp_path: Path) -> None:
    with proxy(tmp_path, upstream.address) as running:
        for name in ("pcm", "wav", "mp3", "opus", "aac", "flac"):
            plain, marked = speak(upstream, name), speak(running, name, **{"X-Ideaw-Message": "cd34"})
            assert marked.headers["content-type"] == plain.headers["content-type"]
            assert marked.headers["x-ideaw-marked"] == "yes"
            samples, rate = decoded(marked.content, name)
            rate = 22_050 if name == "pcm" else rate
            assert marker.detect(samples, rate).message == "cd34"
            assert not marker.detect(decoded(plain.content, name)[0], rate).found
            if name in ("pcm", "wav"):
                assert len(marked.content) == len(plain.content)
        samples, rate = decoded(speak(running, "wav").content, "wav")
        assert marker.detect(samples, rate).message == "ab12"
        refused = running.client.post("/v1/audio/speech", json={"input": ""})
        assert refused.status_code == 422
        assert refused.json() == upstream.client.post("/v1/audio/speech", json={"input": ""}).json()


@needs_espeak
@pytest.mark.slow
def test_the_example_server_marks_by_itself(marker: ideaw.Marker, tmp_path: Path) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with started(tmp_path, EXAMPLE, "--port", port, "--message", "own") as running:
        wait_until(lambda: _answers(running), "the example server answers")
        for name in ("wav", "mp3", "opus"):
            samples, rate = decoded(speak(running, name).content, name)
            assert marker.detect(samples, rate).message == "own"


# In front of odd answers


class Odd(BaseHTTPRequestHandler):
    """Answers as servers do now and then."""

    protocol_version = "HTTP/1.1"
    pcm: ClassVar[bytes] = b""
    wav: ClassVar[bytes] = b""
    go_on: ClassVar[threading.Event] = threading.Event()
    sent: ClassVar[list[int]] = [0]
    left: ClassVar[threading.Event] = threading.Event()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _send(self, kind: str, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _begin_chunks(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in ("/file.wav", "/file.bin"):
            kind = "audio/wav" if path.endswith("wav") else "application/octet-stream"
            if (wanted := self.headers.get("Range")) is not None:
                first, last = map(int, wanted.removeprefix("bytes=").split("-"))
                part = self.wav[first : last + 1]
                self._send(kind, part, 206, Content_Range=f"bytes {first}-{last}/{len(self.wav)}")
            else:
                self._send(kind, self.wav, Accept_Ranges="bytes", ETag='"1"', X_Own="kept")
        elif path == "/gzip":
            self._send("audio/pcm;rate=24000", gzip.compress(self.pcm), Content_Encoding="gzip")
        elif path == "/gzip.txt":
            self._send("text/plain", gzip.compress(b"text"), Content_Encoding="gzip")
        elif path == "/error":
            self._send("application/json", b'{"error": "busy"}', 429, Retry_After="7")
        elif path == "/audio-error":
            self._send("audio/mpeg", b"no", 500)
        elif path == "/odd":
            self._send("audio/midi", b"MThd")
        elif path == "/moved":
            self._send("text/plain", b"", 307, Location="/file.wav")
        elif path == "/broken":
            self._begin_chunks("audio/pcm;rate=24000")
            self._chunk(self.pcm[:20_000])
            self.close_connection = True
        elif path == "/vorbis":
            self._send("audio/ogg", b"OggS" + b"\0" * 22 + b"\x01\x1e" + b"\x01vorbis" + b"\0" * 23)
        elif path == "/paced":
            self._begin_chunks("audio/pcm;rate=24000")
            for start in range(0, len(self.pcm), 960):  # 20 ms
                self.go_on.wait(PATIENCE_SECONDS)
                self.go_on.clear()
                self._chunk(self.pcm[start : start + 960])
                self.sent[0] = start + 960
            self._chunk(b"")
        elif path == "/endless":
            self._begin_chunks("audio/pcm;rate=24000")
            with contextlib.suppress(OSError):
                while not self.go_on.is_set():
                    self._chunk(self.pcm)
                    self.sent[0] += len(self.pcm)
            self.left.set()
            self.close_connection = True
        else:
            self._echo()

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self._echo()

    do_PUT = do_DELETE = do_POST

    def _echo(self) -> None:
        """What arrived, as JSON."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        said = {
            "method": self.command,
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": body.decode("latin-1"),
        }
        self._send("application/json", json.dumps(said).encode())


@pytest.fixture(scope="module")
def odd(spoken_24k: NDArray[np.int16], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A proxy in front of odd answers."""
    file = io.BytesIO()
    sf.write(file, spoken_24k, RATE, format="WAV")
    Odd.pcm, Odd.wav = spoken_24k.tobytes(), file.getvalue()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with proxy(tmp_path_factory.mktemp("odd"), f"http://127.0.0.1:{server.server_address[1]}") as running:
            yield running
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_all_but_audio_passes_untouched(odd: Running) -> None:
    for method, body in (("POST", b"\x00\xffbody"), ("PUT", b""), ("DELETE", None), ("GET", None)):
        said = odd.client.request(method, "/a%2Fb/c?x=1&y=%20", content=body, headers={"X-Own": "1"}).json()
        assert said["method"] == method
        assert said["path"] == "/a%2Fb/c?x=1&y=%20"
        assert said["headers"]["x-own"] == "1"
        assert said["body"] == (body or b"").decode("latin-1")
    said = odd.client.post("/echo", content=iter([b"in ", b"pieces"]), headers={"X-Ideaw-Message": "zz"}).json()
    assert said["body"] == "in pieces"
    assert "x-ideaw-message" not in said["headers"]
    answer = odd.client.get("/error")
    assert (answer.status_code, answer.headers["retry-after"], answer.json()) == (429, "7", {"error": "busy"})
    answer = odd.client.get("/audio-error")
    assert (answer.status_code, answer.content) == (500, b"no")
    answer = odd.client.get("/moved", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "/file.wav")
    with odd.client.stream("GET", "/gzip.txt") as raw:
        assert gzip.decompress(b"".join(raw.iter_raw())) == b"text"
    answer = odd.client.get("/file.bin", headers={"Range": "bytes=10-19"})
    assert (answer.status_code, answer.content) == (206, Odd.wav[10:20])
    answer = odd.client.get("/odd")
    assert answer.content == b"MThd"
    assert answer.headers["x-ideaw-marked"].startswith("no")
    head = odd.client.head("/file.wav")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.slow
def test_a_part_of_audio_is_answered_with_all_of_it(odd: Running, marker: ideaw.Marker) -> None:
    for headers in ({}, {"Range": "bytes=10-19"}):
        answer = odd.client.get("/file.wav", headers=headers)
        assert answer.status_code == 200
        assert answer.headers["x-own"] == "kept"
        assert not {"etag", "accept-ranges", "content-range"} & set(answer.headers)
        assert len(answer.content) == len(Odd.wav) == int(answer.headers["content-length"])
        assert marker.detect(*decoded(answer.content, "wav")).message == "ab12"
    answer = odd.client.get("/gzip")
    assert "content-encoding" not in answer.headers
    assert marker.detect(*decoded(answer.content, "pcm")).message == "ab12"


@pytest.mark.slow
def test_a_message_that_does_not_fit_and_an_upstream_that_is_away(odd: Running, tmp_path: Path) -> None:
    answer = odd.client.get("/file.wav", headers={"X-Ideaw-Message": ""})
    assert answer.status_code == 400
    assert "message" in answer.json()["error"]["message"]
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
    with proxy(tmp_path, nowhere) as running:
        answer = running.client.get("/v1/models")
        assert answer.status_code == 502
        assert nowhere in answer.json()["error"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/broken", "/vorbis"])
def test_what_breaks_upstream_breaks_here(odd: Running, path: str) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        odd.client.get(path)
    assert odd.client.get("/echo").status_code == 200


@pytest.mark.slow
def test_audio_is_passed_on_while_it_comes(odd: Running) -> None:
    Odd.go_on.clear()
    Odd.sent[0] = came = 0
    with odd.client.stream("GET", "/paced") as answer:
        pieces = answer.iter_raw()
        Odd.go_on.set()
        while Odd.sent[0] < len(Odd.pcm):
            # The next 20 ms are sent only after all that must have come of those before has come.
            due = Odd.sent[0] - 2 * int(MAX_DELAY_SECONDS * RATE)
            while came < due:
                came += len(next(pieces))
            before = Odd.sent[0]
            Odd.go_on.set()
            wait_until(lambda before=before: Odd.sent[0] > before, "the next block is sent")  # type: ignore[misc]
        came += sum(map(len, pieces))
    assert came == len(Odd.pcm)


def _stalls(value: Callable[[], int]) -> bool:
    """Whether a number that grows stays as it is for a second."""
    before = value()
    time.sleep(1)
    return value() == before


@pytest.mark.slow
def test_a_slow_reader_slows_the_upstream_and_one_who_leaves_ends_it(odd: Running) -> None:
    Odd.go_on.clear()
    Odd.left.clear()
    Odd.sent[0] = 0
    with odd.client.stream("GET", "/endless") as answer:
        next(answer.iter_raw())
        wait_until(lambda: _stalls(lambda: Odd.sent[0]), "the upstream waits for the reader")
        assert Odd.sent[0] < 50_000_000
    assert Odd.left.wait(PATIENCE_SECONDS)
    Odd.go_on.set()
    assert odd.client.get("/echo").status_code == 200


@pytest.mark.parametrize("upstream_address", ["nonsense", "ftp://127.0.0.1", "http://"])
def test_an_address_of_no_server_is_refused(upstream_address: str, capfd: pytest.CaptureFixture[str]) -> None:
    from ideaw.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["proxy", "--upstream", upstream_address, "-m", "ab12"])
    assert ended.value.code == 2
    assert "is no address of a server" in capfd.readouterr().err
