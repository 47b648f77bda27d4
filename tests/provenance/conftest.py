"""Registries: files of SQLite, and a PostgreSQL server of Debian that the tests start for themselves."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from ideaw import Record, Registry
from ideaw.provenance.records import id_message, written_message

UNPRIVILEGED = "nobody"
"""Who runs the server where the tests are run by root, as whom it refuses to run."""


POSTGRESQL = (pytest.mark.xdist_group("postgresql"), pytest.mark.slow)
"""Marks of tests that ask the server: one process starts it."""


def record_of(number: int) -> Record:
    """A record with something in every field."""
    return Record(
        id=number,
        created=datetime(2026, 11, 19, 20, 15, 30, 123456, UTC),
        message=written_message(id_message(number)),
        key_fingerprint="9b2f6d0c41aa7e35",
        wire_format=1,
        model="46+10",
        duration_seconds=12.34,
        sha256=f"{number:064x}",
        fingerprint=bytes(range(256)),
        manifest=b"\0manifest\xff" * 9,
        data={"title": "Ä", "parts": [1, 2.5, None, {"a": True}]},
    )


def plain_record(number: int) -> Record:
    """A record without what may be left out."""
    return replace(record_of(number), manifest=None, data={})


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server on a socket in a folder."""

    programs: Path
    folder: Path

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of its programs, not as root."""
        words = [str(self.programs / program), *arguments]
        if os.geteuid() == 0:
            words = ["setpriv", f"--reuid={UNPRIVILEGED}", "--regid=nogroup", "--clear-groups", *words]
        return subprocess.run(words, check=True, capture_output=True, text=True, cwd=self.folder)

    def start(self) -> None:
        """Start it; nobody cuts its power, so it need not wait for the disk."""
        settings = f"-k {self.folder} -c listen_addresses='' -c max_connections=120 -c fsync=off"
        log = str(self.folder / "log")
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", log, "-o", settings, "start")

    def stop(self) -> None:
        """Stop it at once; who is connected is cut off."""
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", "fast", "stop")

    def create(self, name: str) -> str:
        """Make an empty place in its database, faster than a database of its own, and give its URL."""
        url = f"postgresql+psycopg://ideaw@/postgres?host={self.folder}"
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"DROP SCHEMA IF EXISTS {name} CASCADE"))
            connection.execute(text(f"CREATE SCHEMA {name}"))
        engine.dispose()
        return f"postgresql://ideaw@/postgres?host={self.folder}&options=-csearch_path%3D{name}"


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A running server."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        pytest.skip("postgresql is not installed")
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed, and PostgreSQL does not run as root")
    folder = Path(tempfile.mkdtemp(prefix="ideaw-pg-"))  # short, for the name of a socket has 107 letters at most
    made = Server(found[-1].parent, folder)
    if os.geteuid() == 0:
        user = pwd.getpwnam(UNPRIVILEGED)
        os.chown(folder, user.pw_uid, user.pw_gid)
    try:
        made.run(
            "initdb", "-D", str(folder / "data"), "-U", "ideaw", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8"
        )
        made.start()
        yield made
        made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=POSTGRESQL)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ideaw.db'}"
    made: str = request.getfixturevalue("server").create("ideaw")
    return made


@pytest.fixture
def registry(url: str) -> Iterator[Registry]:
    """An empty registry of each kind."""
    with Registry(url) as opened:
        yield opened
