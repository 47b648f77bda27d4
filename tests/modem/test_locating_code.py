"""The locating code: fixed for a key, and another one for another key."""

import numpy as np

from ideaw.modem.locating_code import locating_code


def test_the_public_code_never_changes() -> None:
    # Marks in the world are found by it.
    assert "".join(map(str, locating_code(10))) == "0011100011"


def test_another_key_has_another_code() -> None:
    assert not np.array_equal(locating_code(10), locating_code(10, b"another key"))
