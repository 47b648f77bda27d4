"""The shipped model for the engine's tests; IDEAW_TEST_MODEL names another model folder, say a fresh export."""

import os
from pathlib import Path

import pytest

from ideaw.engine.network import Network
from ideaw.keys import PUBLIC
from ideaw.models import DEFAULT_MODEL, find_model, model_folder
from ideaw.modem.channel import KeyChannels


@pytest.fixture(scope="session")
def folder() -> Path:
    """The folder of the model."""
    given = os.environ.get("IDEAW_TEST_MODEL")
    return Path(given) if given else Path(str(model_folder(DEFAULT_MODEL)))


@pytest.fixture(scope="session")
def network(folder: Path) -> Network:
    return Network(find_model(folder))


@pytest.fixture(scope="session")
def channels(network: Network) -> KeyChannels:
    """Its channels under the public key."""
    return network.channels(PUBLIC)
