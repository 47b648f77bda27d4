"""Clients that are slow, stop halfway, send too much or something that swells: refused, and nothing is left behind."""

import contextlib
import io
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile as sf

import ideaw
from ideaw.audio.read import open_audio

from .conftest import PATIENCE_SECONDS, Running, children, is_alive, service, started, wait_until

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.slow]

LIMITS: dict[str, Any] = {
    "bytes": 2_000_000,
    "seconds": 20.0,
    "values": 8_000_000,
    "job_seconds": PATIENCE_SECONDS,
    "waiting": 1,
    "uploads": 3,
    "held_bytes": 31_000_000,
    "patience_seconds": 1.0,
}

HEAD = "POST /v1/detect HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
OPENING = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
CLOSING = b"\r\n--b--\r\n"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that takes on little, and has one worker."""
    with service(tmp_path_factory.mktemp("strict"), workers=1, limits=LIMITS) as running:
        yield running


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The same, but it waits for clients as long as tests do: for what happens while several do not go on."""
    limits = LIMITS | {"patience_seconds": PATIENCE_SECONDS}
    with service(tmp_path_factory.mktemp("patient"), workers=1, limits=limits) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_is_left(strict: Running, patient: Running) -> Iterator[None]:
    """After every test: no file, no upload, no job, one worker and one guard; and the services still serve."""
    yield
    check_nothing_is_left(strict)
    check_nothing_is_left(patient)


def check_nothing_is_left(running: Running) -> None:
    wait_until(lambda: running.uploads == [], "the folder is empty")
    wait_until(lambda: running.metric("ideaw_uploads") == 0, "no upload is open")
    wait_until(lambda: running.metric("ideaw_workers_busy") == running.metric("ideaw_jobs_waiting") == 0, "no job")
    wait_until(lambda: len(children(running.process.pid)) == 2, "one worker and one guard")
    assert running.client.get("/health").status_code == 200


def workers_of(running: Running) -> list[int]:
    return [pid for pid, command in children(running.process.pid).items() if "ideaw.service.worker" in command]


def worker_of(running: Running) -> int:
    (pid,) = workers_of(running)
    return pid


def answer_on(connection: socket.socket) -> tuple[int, str]:
    """Status and body of the answer that comes on a bare connection until it is closed, or for as long as it says."""
    received = b""
    while b"\r\n\r\n" not in received or len(received.partition(b"\r\n\r\n")[2]) < content_length(received):
        piece = connection.recv(65_536)
        if not piece:
            break
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def content_length(received: bytes) -> int:
    head = received.partition(b"\r\n\r\n")[0].lower()
    return int(head.partition(b"content-length:")[2].split()[0])


def wait_for_end(connection: socket.socket) -> None:
    """Wait until the other side has closed."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionError:
        pass


def later(call: Callable[[], httpx.Response]) -> tuple[threading.Thread, list[httpx.Response]]:
    """A request in the background, and the list in which its answer will be, if one comes."""
    answers: list[httpx.Response] = []

    def ask() -> None:
        with contextlib.suppress(httpx.TransportError):
            answers.append(call())

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, answers


def preview_later(running: Running, path: Path) -> tuple[threading.Thread, list[httpx.Response]]:
    files = {"file": ("a.wav", path.read_bytes())}
    url = f"{running.address}v1/preview"
    return later(lambda: httpx.post(url, files=files, timeout=PATIENCE_SECONDS))


# ---- Slow, and half


def test_a_head_that_does_not_end_is_answered_and_the_connection_closed(strict: Running) -> None:
    for sent in (b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: loc"):
        with strict.connect() as connection:
            connection.sendall(sent)
            status, body = answer_on(connection)
            assert (status, "too slowly" in body) == (408, True)
            wait_for_end(connection)


def drip(connection: socket.socket, piece: bytes) -> bytes:
    """Send the same again and again with little pauses; the beginning of the answer that comes meanwhile."""
    connection.settimeout(0.05)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        connection.sendall(piece)
        with contextlib.suppress(TimeoutError):
            return connection.recv(100)
    raise AssertionError("there is no answer")


def test_a_head_that_drips_is_no_better(strict: Running) -> None:
    with strict.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n")
        assert b" 408 " in drip(connection, b"x: y\r\n")


def test_a_second_head_that_does_not_end_is_let_go_too(strict: Running) -> None:
    with strict.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer_on(connection)[0] == 200
        connection.sendall(b"GET /health HTTP/1.1\r\nHo")
        wait_for_end(connection)


def test_a_body_that_stops_is_answered(strict: Running) -> None:
    with strict.connect() as connection:
        connection.sendall(f"{HEAD}Content-Length: 1000\r\n\r\n".encode() + OPENING + b"RIFF")
        status, body = answer_on(connection)
        assert (status, "too slowly" in body) == (408, True)


def test_a_body_that_follows_too_late_is_not_kept(strict: Running) -> None:
    with strict.connect() as connection:
        connection.sendall(f"{HEAD}Content-Length: 100\r\n\r\n".encode() + OPENING)
        assert answer_on(connection)[0] == 408
        with contextlib.suppress(ConnectionError):
            connection.sendall(CLOSING)
        assert strict.uploads == []


def test_a_body_that_drips_is_answered(strict: Running) -> None:
    with strict.connect() as connection:
        connection.sendall(f"{HEAD}Content-Length: 1000000\r\n\r\n".encode() + OPENING)
        assert b" 408 " in drip(connection, b"x" * 100)


def test_half_an_upload_leaves_nothing(patient: Running) -> None:
    gone = 'ideaw_requests_total{route="/v1/detect",status="499"}'
    before = patient.metric(gone)
    with patient.connect() as connection:
        connection.sendall(f"{HEAD}Content-Length: 100000\r\n\r\n".encode() + OPENING + b"x" * 50_000)
        wait_until(lambda: patient.uploads != [], "the upload has begun")
    wait_until(lambda: patient.metric(gone) == before + 1, "the absence is noted")


@contextlib.contextmanager
def unread_preview(running: Running) -> Iterator[tuple[socket.socket, bytes]]:
    """A client that asked for an answer of 30.4 MB and reads its beginning, which is given too."""
    file = io.BytesIO()
    sf.write(file, np.zeros((3_800_000, 2), np.int16), 192_000, format="FLAC")
    body = OPENING + file.getvalue() + CLOSING
    head = HEAD.replace("detect", "preview") + f"Content-Length: {len(body)}\r\n\r\n"
    with running.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        connection.sendall(head.encode() + body)
        first = connection.recv(1_000)
        assert b"200 OK" in first
        yield connection, first


def test_a_client_that_stops_reading_is_let_go(strict: Running) -> None:
    route = 'ideaw_requests_total{route="/v1/preview",status="200"}'
    before = strict.metric(route)
    with unread_preview(strict) as (connection, first):
        wait_until(lambda: strict.metric(route) == before + 1, "the answer is given up")
        received = len(first)
        try:
            while piece := connection.recv(65_536):
                received += len(piece)
        except ConnectionError:
            pass
        assert received < content_length(first)


# ---- Too much


def test_five_gigabytes_are_refused_before_they_come(strict: Running) -> None:
    for extra in ("", "Expect: 100-continue\r\n"):
        with strict.connect() as connection:
            connection.sendall(f"{HEAD}{extra}Content-Length: 5000000000\r\n\r\n".encode())
            status, body = answer_on(connection)
            assert (status, "2 MB" in body) == (413, True)


def test_a_body_without_end_is_refused_at_the_limit(strict: Running) -> None:
    with strict.connect() as connection:
        connection.settimeout(0)
        pieces = iter([f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode(), b"%x\r\n%b\r\n" % (len(OPENING), OPENING)])
        chunk, unsent, sent, received = b"10000\r\n" + b"x" * 0x10000 + b"\r\n", b"", 0, b""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not received:
            assert time.monotonic() < deadline
            unsent = unsent or next(pieces, chunk)
            try:
                count = connection.send(unsent)
                unsent, sent = unsent[count:], sent + count
            except BlockingIOError:
                time.sleep(0.001)
            try:
                received = connection.recv(100)
            except BlockingIOError:
                continue
        assert b" 413 " in received


def test_a_client_that_sends_on_after_the_answer_is_let_go(strict: Running) -> None:
    with strict.connect() as connection:
        connection.sendall(f"{HEAD}Content-Length: 5000000000\r\n\r\n".encode())
        assert answer_on(connection)[0] == 413

        def refuses() -> bool:
            try:
                connection.sendall(b"x" * 1_000)
            except ConnectionError:
                return True
            return False

        wait_until(refuses, "the connection is closed")


def test_too_many_parts_fields_and_headers_are_refused(strict: Running) -> None:
    part = b'--b\r\nContent-Disposition: form-data; name="n%d"\r\n\r\nx\r\n'
    header = b"--b\r\n" + b"x: y\r\n" * 1_000
    for status, body in (
        (400, b"".join(part % number for number in range(100)) + b"--b--\r\n"),
        (413, b'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\n' + b"0" * 100_000 + CLOSING),
        (400, header + CLOSING),
        (400, b"--b\r\nContent-Disposition: form-data; name=" + b"n" * 100_000 + b"\r\n\r\nx" + CLOSING),
        (400, b"--b\r\n\r\nno name\r\n--b--\r\n"),
        (400, OPENING + b"no end"),
        (400, b"this is no form"),
        (400, b""),
    ):
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        answer = strict.client.post("/v1/detect", content=body, headers=headers)
        assert answer.status_code == status, (body[:60], answer.text)
        assert len(answer.text) < 1_000


@pytest.mark.parametrize(
    "kind", ["application/json", "multipart/form-data", f"multipart/form-data; boundary={'b' * 999}"]
)
def test_what_is_no_form_is_refused(strict: Running, kind: str) -> None:
    answer = strict.client.post("/v1/detect", content=b"--b--", headers={"Content-Type": kind})
    assert answer.status_code in (400, 415)


def test_a_head_that_is_too_long_is_refused(strict: Running) -> None:
    with strict.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nx: " + b"y" * 100_000)
        status, body = answer_on(connection)
        assert (status, body.startswith('{"error"')) == (400, True)


def test_so_many_uploads_at_once_are_refused_and_no_more(patient: Running, spoken: Path) -> None:
    declared = f"{HEAD}Content-Length: 1000000\r\n\r\n".encode()
    with patient.connect() as first, patient.connect() as second, patient.connect() as third:
        for connection in (first, second, third):
            connection.sendall(declared + OPENING)
        wait_until(lambda: patient.metric("ideaw_uploads") == 3, "three uploads are open")
        answer = patient.post("detect", file=spoken)
        assert (answer.status_code, "uploads" in answer.json()["error"]) == (503, True)
        assert int(answer.headers["retry-after"]) > 0
    wait_until(lambda: patient.metric("ideaw_uploads") == 0, "they are gone")
    assert patient.post("detect", file=spoken).status_code == 200


def test_the_disk_is_not_filled_by_uploads_and_answers_together(patient: Running, spoken: Path) -> None:
    declared = f"{HEAD}Content-Length: 1900000\r\n\r\n".encode()
    with unread_preview(patient):
        assert patient.post("detect", file=spoken).status_code == 200
        sent = 'ideaw_requests_total{route="/v1/preview",status="200"}'
        before = patient.metric(sent)
        answers = [patient.post("preview", file=("a.flac", silence(20, "FLAC", rate=rate))) for rate in (8_000, 4_000)]
        assert [answer.status_code for answer in answers] == [503, 200]
        wait_until(lambda: patient.metric(sent) == before + 1, "what was sent no longer counts")
        with patient.connect() as half:
            half.sendall(declared + OPENING + b"x" * 550_000)
            held = lambda: sum(file.stat().st_size for folder in patient.uploads for file in folder.iterdir())  # noqa: E731
            wait_until(lambda: held() > 500_000, "it has arrived so far")
            for route in ("detect", "preview"):
                answer = patient.post(route, file=spoken)
                assert (answer.status_code, "too much" in answer.json()["error"]) == (503, True)
    wait_until(lambda: patient.post("preview", file=spoken).status_code == 200, "the answer is given up")


def test_more_connections_than_are_served_are_answered(patient: Running) -> None:
    opened = [patient.connect() for _ in range(520)]
    try:
        status, body = answer_on(opened[-1])
        assert (status, "connections" in body) == (503, True)
    finally:
        for connection in opened:
            connection.close()


def test_a_large_upload_passes_through_little_memory(private: Running) -> None:
    answer = private.post("detect", file=("a.wav", bytes(80_000_000)))
    assert answer.status_code == 415
    assert memory_bytes(private.process.pid) < 150_000_000


# ---- What swells


def silence(seconds: float, kind: str, rate: int = 8_000) -> bytes:
    file = io.BytesIO()
    subtype = {"OPUS": ("OGG", "OPUS"), "MP3": ("MP3", None), "FLAC": ("FLAC", None)}[kind]
    with sf.SoundFile(file, "w", rate, 1, format=subtype[0], subtype=subtype[1]) as sound:
        for _ in range(round(seconds / 10)):
            sound.write(np.zeros(10 * rate))
    return file.getvalue()


def memory_bytes(pid: int) -> int:
    """The most memory that a process has had."""
    row = next(row for row in Path(f"/proc/{pid}/status").read_text().splitlines() if row.startswith("VmHWM"))
    return 1024 * int(row.split()[1])


@pytest.mark.parametrize(("kind", "seconds"), [("FLAC", 3_600), ("MP3", 120), ("OPUS", 120)])
def test_hours_of_silence_in_a_small_file_are_refused(strict: Running, kind: str, seconds: float) -> None:
    bomb = silence(seconds, kind)
    worker = worker_of(strict)
    for route in ("embed", "detect", "preview", "attack"):
        fields = {"embed": {"message": "hey"}, "attack": {"attack": "noise"}}.get(route, {})
        answer = strict.post(route, fields, file=("a.wav", bomb))
        assert (answer.status_code, "longer than" in answer.json()["error"]) == (413, True), (route, answer.text)
    assert worker_of(strict) == worker
    assert memory_bytes(worker) < 700_000_000


def test_a_length_that_no_header_tells_is_counted(strict: Running, tmp_path: Path) -> None:
    bomb = bytearray(silence(600, "FLAC"))
    bomb[21] &= 0xF0  # the number of samples in its header: 36 bits from here on, where 0 is unknown
    bomb[22:26] = bytes(4)
    (tmp_path / "bomb.flac").write_bytes(bomb)
    with open_audio(tmp_path / "bomb.flac") as opened:
        assert opened.num_samples is None
    for route, fields in (
        ("embed", {"message": "hey"}),
        ("detect", {}),
        ("preview", {}),
        ("attack", {"attack": "cut"}),
    ):
        answer = strict.post(route, fields, file=tmp_path / "bomb.flac")
        assert (answer.status_code, "longer than" in answer.json()["error"]) == (413, True), (route, answer.text)


def test_a_header_that_claims_gigabytes_allocates_none(strict: Running, spoken: Path) -> None:
    wav = bytearray(spoken.read_bytes())
    wav[4:8] = wav[40:44] = b"\xff\xff\xff\xff"
    worker = worker_of(strict)
    for route in ("detect", "preview"):
        answer = strict.post(route, file=("a.wav", bytes(wav)))
        assert answer.status_code in (200, 413, 415), answer.text
    assert memory_bytes(worker) < 700_000_000


# ---- Jobs that do not end


def test_a_job_beyond_its_time_is_stopped_and_harms_no_other(tmp_path: Path, spoken: Path) -> None:
    with service(tmp_path, workers=2, limits={"job_seconds": 3.0}) as running:
        workers = workers_of(running)
        os.kill(workers[0], signal.SIGSTOP)
        answers = [running.post("preview", file=spoken) for _ in range(2)]
        assert sorted(answer.status_code for answer in answers) == [200, 422]
        (late,) = [answer for answer in answers if answer.status_code == 422]
        assert "longer than the 3 s" in late.json()["error"]
        wait_until(lambda: not is_alive(workers[0]), "the worker is killed")
        assert is_alive(workers[1])
        assert [running.post("preview", file=spoken).status_code for _ in range(3)] == [200] * 3
        assert running.metric('ideaw_workers_replaced_total{reason="time"}') == 1
        assert running.uploads == []


@pytest.mark.parametrize(("deaths", "status"), [(1, 200), (2, 422)])
def test_a_job_whose_worker_dies_is_tried_once_more(strict: Running, spoken: Path, deaths: int, status: int) -> None:
    os.kill(worker_of(strict), signal.SIGSTOP)
    thread, answers = preview_later(strict, spoken)
    wait_until(lambda: strict.metric("ideaw_workers_busy") == 1, "the worker is busy")
    for _ in range(deaths):
        worker = worker_of(strict)
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda dead=worker: dead not in workers_of(strict) != [], "another one has begun")  # type: ignore[misc]
    thread.join()
    assert answers[0].status_code == status, answers[0].text
    assert strict.post("preview", file=spoken).status_code == 200


def test_a_worker_that_died_while_it_had_nothing_to_do_is_nobody_s_fault(strict: Running, spoken: Path) -> None:
    os.kill(worker_of(strict), signal.SIGKILL)
    assert strict.post("preview", file=spoken).status_code == 200


def test_more_than_may_wait_is_refused_for_the_moment(strict: Running, spoken: Path) -> None:
    worker = worker_of(strict)
    os.kill(worker, signal.SIGSTOP)
    running = preview_later(strict, spoken)
    wait_until(lambda: strict.metric("ideaw_workers_busy") == 1, "the worker is busy")
    waiting = preview_later(strict, spoken)
    wait_until(lambda: strict.metric("ideaw_jobs_waiting") == 1, "another job waits")
    refused = strict.post("preview", file=spoken)
    assert (refused.status_code, "busy" in refused.json()["error"]) == (503, True)
    assert int(refused.headers["retry-after"]) > 0
    os.kill(worker, signal.SIGCONT)
    for thread, answers in (running, waiting):
        thread.join()
        assert answers[0].status_code == 200


def test_a_job_ends_when_its_client_goes(strict: Running, spoken: Path) -> None:
    worker = worker_of(strict)
    os.kill(worker, signal.SIGSTOP)
    body = OPENING + spoken.read_bytes() + CLOSING
    with strict.connect() as connection:
        connection.sendall(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_until(lambda: strict.metric("ideaw_workers_busy") == 1, "the worker is busy")
    wait_until(lambda: not is_alive(worker), "the worker is replaced")
    assert strict.post("detect", file=spoken).status_code == 200


def test_a_service_tells_no_message_with_less_proof_than_its_owner_asks_for(
    tmp_path: Path, private: Running, spoken: Path
) -> None:
    samples, rate = sf.read(spoken)
    marked = ideaw.load(threads=1).embed(samples, rate, "hey", layers="fast")
    noise = 0.03 * marked.std() * np.random.default_rng(0).standard_normal(len(marked))
    sf.write(tmp_path / "noisy.wav", marked + noise, rate)
    usual = private.post("detect", file=tmp_path / "noisy.wav").json()
    assert (usual["message"], usual["check_bits"] < 48) == ("hey", True)
    command = ("-m", "ideaw", "serve", "--no-open", "--port", "0", "--workers", "1", "--check-bits", "48")
    with started(tmp_path, *command) as proving:
        answer = proving.post("detect", file=tmp_path / "noisy.wav").json()
        assert (answer["status"], answer["message"], answer["check_bits"]) == ("unreadable", None, 0)
