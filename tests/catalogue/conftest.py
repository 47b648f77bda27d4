"""Short clips of real speech, some marked and some unreadable, and buckets of a real S3 server."""

import importlib
import io
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.catalogue.shards import read_parts
from ideaw.catalogue.storage import Storage

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
RATE = 16_000
MESSAGE = "hey"


@pytest.fixture(scope="session")
def faults() -> ModuleType:
    """`benchmarks/catalogue_faults.py`, whose fault run the tests make with fewer files."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module("catalogue_faults")
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="session")
def marked(speech: NDArray[np.float32]) -> NDArray[np.float32]:
    """The speech with "hey" under the public key."""
    return ideaw.load(threads=1).embed(speech, RATE, MESSAGE)


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32], marked: NDArray[np.float32]) -> Path:
    """A folder of eight clips, every other one marked, and an unreadable file; no test may change it."""
    folder = tmp_path_factory.mktemp("clips")
    (folder / "b").mkdir()
    for number in range(8):
        start = number * 5_000
        samples = (marked if number % 2 else speech)[start : start + 2 * RATE]
        sf.write(folder / ("b" if number > 3 else "") / f"{number}.flac", samples, RATE)
    (folder / "broken.wav").write_bytes(b"RIFF and nothing else")
    (folder / "notes.txt").write_text("no audio")
    return folder


@pytest.fixture(scope="session")
def bucket_server(tmp_path_factory: pytest.TempPathFactory, faults: ModuleType) -> Iterator[dict[str, str]]:
    """The environment in which a real S3 server is found, which has the bucket "catalogue"."""
    with faults.s3_server(tmp_path_factory.mktemp("s3") / "server.log") as environment:
        with faults.patched_environment(environment):
            Storage("s3://catalogue").fs.mkdir("catalogue")
        yield environment


@pytest.fixture
def bucket(bucket_server: Mapping[str, str], faults: ModuleType) -> Iterator[Mapping[str, str]]:
    """The same server, found by this process too."""
    with faults.patched_environment(bucket_server):
        yield bucket_server


@dataclass(frozen=True)
class Rows:
    """All rows of a job."""

    table: pa.Table

    def of(self, name: str) -> dict[str, Any]:
        """The only row of a file."""
        (row,) = (row for row in self.table.to_pylist() if row["id"] == name)
        return row

    def column(self, name: str) -> list[Any]:
        return self.table[name].to_pylist()


def rows(out: object) -> Rows:
    """What the parts of a job hold."""
    return Rows(pa.concat_tables(read_parts(Storage(str(out)))))


def flac(samples: NDArray[np.float32]) -> bytes:
    """Samples as the bytes of a FLAC file."""
    file = io.BytesIO()
    sf.write(file, samples, RATE, format="FLAC")
    return file.getvalue()
