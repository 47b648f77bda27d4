"""A test authority, a registry, and recordings that were issued once; no test changes them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.provenance.credentials import TestAuthority, make_test_authority
from ideaw.provenance.issue import Credential


@dataclass(frozen=True)
class Issued:
    """A recording before and after: 16 kHz, one channel."""

    original: NDArray[np.float64]
    marked: NDArray[np.float64]
    path: Path
    credential: Credential

    @property
    def id(self) -> int:
        return self.credential.record.id


@pytest.fixture(scope="session")
def marker() -> ideaw.Marker:
    return ideaw.load(threads=1)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return make_test_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def signer(authority: TestAuthority) -> ideaw.Signer:
    return ideaw.Signer(authority.chain, authority.key)


@pytest.fixture(scope="session")
def roots(authority: TestAuthority) -> bytes:
    return authority.roots.read_bytes()


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> ideaw.Registry:
    """The registry that knows what was issued."""
    return ideaw.Registry(f"sqlite:///{tmp_path_factory.mktemp('shelf') / 'marks.db'}")


def issue_once(
    folder: Path, samples: NDArray[np.float32], shelf: ideaw.Registry, signer: ideaw.Signer, marker: ideaw.Marker
) -> Issued:
    """Samples at 16 kHz as a WAV file with credentials."""
    sf.write(folder / "in.wav", samples, SAMPLE_RATE)
    path = folder / "out.wav"
    credential = ideaw.issue_file(
        folder / "in.wav", path, registry=shelf, signer=signer, marker=marker, origin="generated"
    )
    return Issued(sf.read(folder / "in.wav")[0], sf.read(path)[0], path, credential)


@pytest.fixture(scope="session")
def spoken(
    tmp_path_factory: pytest.TempPathFactory,
    speech: NDArray[np.float32],
    shelf: ideaw.Registry,
    signer: ideaw.Signer,
    marker: ideaw.Marker,
) -> Issued:
    """Six seconds of speech, said to be generated."""
    return issue_once(tmp_path_factory.mktemp("spoken"), speech, shelf, signer, marker)


@pytest.fixture(scope="session")
def played(
    tmp_path_factory: pytest.TempPathFactory,
    strings: NDArray[np.float32],
    shelf: ideaw.Registry,
    signer: ideaw.Signer,
    marker: ideaw.Marker,
) -> Issued:
    """Six seconds of strings."""
    return issue_once(tmp_path_factory.mktemp("played"), strings, shelf, signer, marker)
