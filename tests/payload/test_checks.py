"""Checks: CRCs that never change under the public key, and MACs of the same width under another."""

import zlib

import numpy as np
import pytest
from numpy.typing import NDArray

from ideaw.keys import PUBLIC, Key
from ideaw.payload.framing import body_check
from ideaw.payload.message import CRC_POLYNOMIALS, payload_check

KEY = Key(bytes(range(16)))


def digits(bits: NDArray[np.uint8]) -> str:
    return "".join(map(str, bits))


def test_checks_never_change() -> None:
    # Marks in the world are read by them.
    bits = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1], np.uint8)
    assert digits(payload_check(bits, 11)) == digits(payload_check(bits, 11, PUBLIC)) == "01001000000"
    assert digits(payload_check(bits, 11, KEY)) == "10011110100"
    assert body_check(b"track-0042") == zlib.crc32(b"track-0042").to_bytes(4, "big")
    assert body_check(b"track-0042", KEY).hex() == "244b53c0"


@pytest.mark.slow
@pytest.mark.parametrize("width", sorted(CRC_POLYNOMIALS))
@pytest.mark.parametrize("key", [PUBLIC, KEY])
def test_checks_depend_on_all_that_is_said(width: int, key: Key) -> None:
    rng = np.random.default_rng(0)
    passed, trials = 0, 4000
    for bits in rng.integers(0, 2, (trials, 20)).astype(np.uint8):
        other = rng.integers(0, 2, 20).astype(np.uint8)
        same = np.array_equal(payload_check(bits, width, key), payload_check(other, width, key))
        passed += same and not np.array_equal(bits, other)
    expected = trials / 2**width
    assert abs(passed - expected) < 5 * np.sqrt(expected) + 1


def test_a_mac_says_nothing_about_that_of_another_key_or_length() -> None:
    rng = np.random.default_rng(0)
    payloads = rng.integers(0, 2, (1000, 35)).astype(np.uint8)
    mine = [digits(payload_check(bits, 11, KEY)) for bits in payloads]
    for other in (PUBLIC, Key.fresh()):
        theirs = [digits(payload_check(bits, 11, other)) for bits in payloads]
        assert sum(one == two for one, two in zip(mine, theirs, strict=True)) < 8
    zeros = {digits(payload_check(np.zeros(count, np.uint8), 11, KEY)) for count in range(1, 65)}
    assert len(zeros) > 58
