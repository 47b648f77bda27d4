"""The shipped model for the engine's tests; IDEAW_TEST_MODEL names another model folder, say a fresh export."""

import os
from importlib import resources
from pathlib import Path

import pytest

from ideaw.engine.network import Network


@pytest.fixture(scope="session")
def folder() -> Path:
    given = os.environ.get("IDEAW_TEST_MODEL")
    return Path(given) if given else Path(str(resources.files("ideaw").joinpath("weights", "46+10")))


@pytest.fixture(scope="session")
def network(folder: Path) -> Network:
    return Network(folder)
