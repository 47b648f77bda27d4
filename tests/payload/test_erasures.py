"""Reed–Solomon: any k blocks give all the others."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ideaw.payload.erasures import _tables, values_at


def test_the_field_is_a_field() -> None:
    powers, _, products = _tables()
    assert len(set(powers.tolist())) == 255
    elements = np.arange(256)
    assert (products[1] == elements).all()
    assert not products[0].any()
    assert (products == products.T).all()
    assert all(sorted(products[element]) == elements.tolist() for element in range(1, 256))
    a, b, c = np.random.default_rng(0).integers(0, 256, (3, 5000))
    assert (products[a, products[b, c]] == products[products[a, b], c]).all()
    assert (products[a, b ^ c] == products[a, b] ^ products[a, c]).all()
    assert products[0x80, 2] == 0x1D


@given(st.integers(1, 40), st.integers(1, 13), st.randoms(use_true_random=False), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_any_k_blocks_give_the_others(needed: int, size: int, random: Random, seed: int) -> None:
    data = np.random.default_rng(seed).integers(0, 256, (needed, size)).astype(np.uint8)
    every = np.arange(256)
    blocks = values_at(every, np.arange(needed), data)
    assert np.array_equal(blocks[:needed], data)
    chosen = np.array(random.sample(range(256), needed))
    assert np.array_equal(values_at(every, chosen, blocks[chosen]), blocks)


def test_as_many_blocks_as_points() -> None:
    data = np.random.default_rng(0).integers(0, 256, (256, 3)).astype(np.uint8)
    assert np.array_equal(values_at(np.arange(256), np.arange(256), data), data)
    order = np.random.default_rng(1).permutation(256)
    assert np.array_equal(values_at(np.arange(256), order, data[order]), data)


@pytest.mark.parametrize("needed", [1, 5, 128])
def test_a_wrong_block_makes_all_others_wrong(needed: int) -> None:
    # So a mixture of two messages is none, and the check over the whole sees it.
    data = np.random.default_rng(0).integers(0, 256, (needed, 3)).astype(np.uint8)
    points = np.arange(needed) + needed
    blocks = values_at(points, np.arange(needed), data)
    blocks[0] ^= 1
    assert (values_at(np.arange(needed), points, blocks) != data).all()
