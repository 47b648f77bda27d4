"""Real services: processes that are started, asked over HTTP, and killed."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.provenance.credentials import Signer, make_test_authority
from ideaw.provenance.issue import Credential, issue_file
from ideaw.provenance.records import id_message
from ideaw.service.folder import FOLDER_PREFIX

TOKEN = "a-token-for-tests-0123456789"

PROGRAM = """
import json, sys
from pathlib import Path
from ideaw.service import server
from ideaw.service.settings import Limits, Settings

given = json.loads(sys.argv[1])
limits = Limits(**given.pop("limits", {}))
if "sign" in given:
    given |= {"sign": tuple(map(Path, given["sign"])), "trusted": Path(given["trusted"])}
server.run(Settings(port=0, limits=limits, **given), lambda address: print(address, flush=True))
"""
"""A service with any settings, of which the command line offers only some."""

PATIENCE_SECONDS = 60.0
"""For anything that a test waits for; nothing takes that long unless it is broken."""


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds, or fail."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS:g} s: {what}"
        time.sleep(0.02)


@dataclass
class Running:
    """A service that runs, with a folder of its own for temporary files."""

    process: subprocess.Popen[str]
    address: str
    temporary: Path
    client: httpx.Client = field(repr=False)

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rpartition(":")[2])

    @property
    def folders(self) -> list[Path]:
        """The service's own folders."""
        return list(self.temporary.glob(f"{FOLDER_PREFIX}*"))

    @property
    def uploads(self) -> list[Path]:
        """What lies in them."""
        return [path for folder in self.folders for path in folder.iterdir()]

    def post(self, route: str, data: dict[str, Any] | None = None, **files: Any) -> httpx.Response:
        """Send a form; files are paths, or names with content."""
        opened = {
            name: (file.name, file.read_bytes()) if isinstance(file, Path) else file for name, file in files.items()
        }
        return self.client.post(f"/v1/{route}", data=data or {}, files=opened)

    def connect(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)

    def metric(self, line: str) -> float:
        """The value of a line of /metrics; 0 where there is none yet."""
        found = [row for row in self.client.get("/metrics").text.splitlines() if row.startswith(f"{line} ")]
        return float(found[0].rpartition(" ")[2]) if found else 0.0


def children(pid: int) -> dict[int, str]:
    """The processes that a process has started and that run, with their command lines."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has buried yet does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@contextlib.contextmanager
def started(temporary: Path, *command: object, prefix: Sequence[str] = (), stderr: Any = None) -> Iterator[Running]:
    """A service that Python starts with these arguments, itself started by `prefix`; stopped in the end."""
    words = [*prefix, sys.executable, *map(str, command)]
    environment = os.environ | {"TMPDIR": str(temporary)}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split(" ")[0].strip()
        assert address, f"the service did not start: {words}"
        with httpx.Client(base_url=address, timeout=PATIENCE_SECONDS) as client:
            yield Running(process, address, temporary, client)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)
        process.stdout.close()


def service(temporary: Path, stderr: Any = None, **settings: Any) -> contextlib.AbstractContextManager[Running]:
    """A service with these settings."""
    return started(temporary, "-c", PROGRAM, json.dumps(settings), stderr=stderr)


@pytest.fixture(scope="session")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The service as people start it, for its owner."""
    command = ("-m", "ideaw", "serve", "--no-open", "--port", "0", "--workers", "1")
    with started(tmp_path_factory.mktemp("private"), *command) as running:
        yield running
        assert running.uploads == []


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with a token, of which others are strangers."""
    settings = {"tokens": [TOKEN], "workers": 1, "limits": {"stranger_requests_per_minute": 1000}}
    with service(tmp_path_factory.mktemp("guarded"), **settings) as running:
        yield running
        assert running.uploads == []


@pytest.fixture(scope="session")
def spoken(tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32]) -> Path:
    """Three seconds of speech as a WAV file, which no test may change."""
    path = tmp_path_factory.mktemp("spoken") / "speech.wav"
    sf.write(path, speech[:48_000], 16_000)
    return path


@pytest.fixture(scope="session")
def marked(tmp_path_factory: pytest.TempPathFactory, private: Running, spoken: Path) -> Path:
    """The same with "hey" in it."""
    path = tmp_path_factory.mktemp("marked") / "marked.wav"
    path.write_bytes(private.post("embed", {"message": "hey"}, file=spoken).raise_for_status().content)
    return path


@dataclass(frozen=True)
class Issued:
    """A file that was given an id: the registry, what signs and is trusted, the file, and its credential."""

    registry: str
    certificate: Path
    key: Path
    roots: Path
    path: Path
    credential: Credential


@pytest.fixture(scope="session")
def issued(tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32]) -> Issued:
    """Six seconds of speech with an id, which no test may change."""
    folder = tmp_path_factory.mktemp("issued")
    authority = make_test_authority(folder / "authority")
    sf.write(folder / "speech.wav", speech, 16_000)
    url, path = f"sqlite:///{folder}/marks.db", folder / "issued.wav"
    with ideaw.Registry(url) as registry:
        signer = Signer(authority.chain, authority.key)
        credential = issue_file(folder / "speech.wav", path, registry=registry, signer=signer, origin="generated")
    return Issued(url, authority.chain, authority.key, authority.roots, path, credential)


@pytest.fixture(scope="session")
def copied(tmp_path_factory: pytest.TempPathFactory, issued: Issued, music: NDArray[np.float32]) -> Path:
    """Music that carries the mark of the issued speech, which no test may change."""
    path = tmp_path_factory.mktemp("copied") / "copied.wav"
    marked = ideaw.load().embed(music, 44_100, id_message(issued.credential.record.id))
    sf.write(path, marked, 44_100)
    return path
