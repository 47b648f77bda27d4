"""The files that are broken, made once."""

import numpy as np
import pytest

from tests.fuzz import mutants


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory, music: np.ndarray) -> dict[str, bytes]:
    return mutants.originals(tmp_path_factory.mktemp("originals"), music)
