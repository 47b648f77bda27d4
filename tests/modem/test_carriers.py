"""Carriers: dealt fairly, by the key alone, and read where they were written."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND
from ideaw.bench.rivals import LearnedCarriers
from ideaw.keys import PUBLIC
from ideaw.modem.carriers import (
    CODE_TILE_FRAMES,
    MESSAGE_TILE_FRAMES,
    TILE_BINS,
    KeyedCarriers,
    TileBand,
    TileFrames,
    keyed_carriers,
    tile_bands,
)

BINS = 480
SIZES = ((552, MESSAGE_TILE_FRAMES), (540, CODE_TILE_FRAMES))
"""Slots of the packaged model's message and code, and how long their tiles are."""


def _tiles(lengths: TileFrames) -> int:
    return sum(band.tiles for band in tile_bands(BINS, lengths))


def _by_range(carriers: KeyedCarriers, first: int, last: int) -> NDArray[np.int64]:
    """How many tiles each of (slots,) has in the ranges `first` to `last`."""
    bands = zip(carriers.bands, carriers.split_bands(carriers.slot_of_tile), strict=True)
    owners = [owner[:, max(first - band.first, 0) : max(last - band.first, 0)].ravel() for band, owner in bands]
    return np.bincount(np.concatenate(owners), minlength=carriers.slots)


# Dealing


@pytest.mark.parametrize(
    ("slots", "label", "digest"),
    [
        (552, b"carriers of the message of 46+10", "ae3b6178c7ab7bde"),
        (540, b"carriers of the code of 46+10", "325c0b0fb6997166"),
        (528, b"carriers of the message of 22+10", "af8eee2d34cf4c4b"),
        (540, b"carriers of the code of 22+10", "27657626a4bf6479"),
        (540, b"carriers of the message of 10+10", "888e96fd415bcdf8"),
        (540, b"carriers of the code of 10+10", "893a7695f4176c1d"),
    ],
)
def test_the_public_carriers_never_change(slots: int, label: bytes, digest: str) -> None:
    # Marks in the world are found by them.
    public = keyed_carriers(slots, BINS, PUBLIC, label, CODE_TILE_FRAMES if b"code" in label else MESSAGE_TILE_FRAMES)
    content = public.slot_of_tile.astype("<u2").tobytes() + public.sign_of_tile.astype("<i1").tobytes()
    assert hashlib.sha256(content).hexdigest()[:16] == digest


@settings(max_examples=60, deadline=None)
@given(
    slots=st.integers(1, 552),
    lengths=st.sampled_from([CODE_TILE_FRAMES, MESSAGE_TILE_FRAMES]),
    ranges=st.integers(1, 240),
    key=st.binary(max_size=8),
    ends=st.tuples(st.integers(0, 240), st.integers(0, 240)),
)
def test_every_slot_has_as_many_tiles_in_each_range_as_any_other(
    slots: int, lengths: TileFrames, ranges: int, key: bytes, ends: tuple[int, int]
) -> None:
    carriers = keyed_carriers(slots, ranges * TILE_BINS, key, b"label", lengths)
    assert carriers.slot_of_tile.shape == carriers.sign_of_tile.shape == (sum(band.tiles for band in carriers.bands),)
    assert set(np.unique(carriers.sign_of_tile)) <= {-1.0, 1.0}
    assert np.ptp(_by_range(carriers, 0, ranges)) <= 1
    # Slots take turns from the lowest range to the highest: what is uneven is the turns that a border cuts.
    assert np.ptp(_by_range(carriers, min(ends), max(ends))) <= 2


@pytest.mark.parametrize(("slots", "lengths"), SIZES)
def test_slots_are_spread_over_time_too(slots: int, lengths: TileFrames) -> None:
    carriers = keyed_carriers(slots, BINS, PUBLIC, b"label", lengths)
    tiles = _tiles(lengths)
    expected = tiles / slots / 2
    for late in (0, 1):
        half = [np.array_split(owner, 2)[late].ravel() for owner in carriers.split_bands(carriers.slot_of_tile)]
        mine = np.bincount(np.concatenate(half), minlength=slots)
        assert np.abs(mine - expected).max() < 5 * np.sqrt(expected / 2)
    assert abs(carriers.sign_of_tile.mean()) < 4 / np.sqrt(tiles)


def test_tiles_of_messages_are_longer_in_high_frequencies() -> None:
    assert tile_bands(480, MESSAGE_TILE_FRAMES) == (TileBand(0, 120, 4), TileBand(120, 240, 8))
    assert tile_bands(200, MESSAGE_TILE_FRAMES) == (TileBand(0, 100, 4),)
    assert tile_bands(480, CODE_TILE_FRAMES) == (TileBand(0, 240, 4),)


@pytest.mark.parametrize(("slots", "lengths"), SIZES)
def test_keys_and_labels_have_carriers_of_their_own(slots: int, lengths: TileFrames) -> None:
    tiles = _tiles(lengths)
    one, same, other, else_for = (
        keyed_carriers(slots, BINS, key, label, lengths).modulate(np.eye(slots))
        for key, label in ((b"1", b"a"), (b"1", b"a"), (b"2", b"a"), (b"1", b"b"))
    )
    assert np.array_equal(one, same)
    assert np.array_equal(one @ one.T, np.diag(np.abs(one).sum(1)))
    for foreign in (other, else_for):
        # Two slots share a tile by chance alone, and agree in its sign by chance again.
        crossed = (one @ foreign.T) / (tiles / slots)
        assert np.sqrt(np.square(crossed).mean()) < 1.1 / np.sqrt(tiles)
        assert np.abs(crossed).max() < 0.8  # four of five tiles, of 300,000 pairs
        assert abs((one.sum(0) @ foreign.sum(0)) / tiles) < 4 / np.sqrt(tiles)


# Writing and reading


@pytest.fixture(scope="module", params=SIZES)
def carriers(request: pytest.FixtureRequest) -> KeyedCarriers:
    slots, lengths = request.param
    return keyed_carriers(slots, BINS, b"some key", b"label", lengths)


def test_a_stream_is_made_of_tiles_and_read_as_it_was_written(carriers: KeyedCarriers) -> None:
    slots = np.random.default_rng(0).choice([-1, 1], (3, 2, carriers.slots))
    stream = carriers.stream(slots)
    assert stream.shape == (3, 2, FRAMES_PER_SECOND, BINS)
    assert stream.dtype == np.float32
    assert np.array_equal(np.abs(stream), np.ones_like(stream))
    for band in carriers.bands:
        part = stream[..., band.first * TILE_BINS : band.last * TILE_BINS]
        assert np.ptp(part.reshape(3, 2, band.time_tiles, band.frames, -1, TILE_BINS), axis=(3, 5)).max() == 0

    narrow = carriers.sum_bins(stream)
    assert narrow.shape == (3, 2, FRAMES_PER_SECOND, BINS // TILE_BINS)
    areas = np.concatenate([np.full(band.tiles, TILE_BINS * band.frames) for band in carriers.bands])
    assert np.array_equal(carriers.sum_tiles(narrow), areas * carriers.modulate(slots))
    # Tiles are nobody's but one slot's, so no slot hears another.
    assert np.array_equal(carriers.slot_llrs(narrow), slots * np.bincount(carriers.slot_of_tile, areas))


def test_logits_look_for_what_a_slot_writes(carriers: KeyedCarriers) -> None:
    found = np.random.default_rng(1).standard_normal((2, FRAMES_PER_SECOND, BINS)).astype(np.float32)
    own = carriers.stream(np.eye(carriers.slots))
    expected = np.einsum("bfn,sfn->bs", found, own)
    logits = carriers.slot_llrs(carriers.sum_bins(found))
    assert logits.shape == (2, carriers.slots)
    assert np.abs(logits - expected).max() < 1e-3  # sums of hundreds of numbers, in another order


def test_streams_can_be_narrowed_before_their_place_is_known(carriers: KeyedCarriers) -> None:
    hops = np.random.default_rng(2).standard_normal((3 * FRAMES_PER_SECOND + 7, BINS)).astype(np.float32)
    narrow = carriers.sum_bins(hops)
    assert narrow.shape == (len(hops), BINS // TILE_BINS)
    for start in (0, 1, FRAMES_PER_SECOND + 3):
        second = slice(start, start + FRAMES_PER_SECOND)
        assert np.array_equal(narrow[second], carriers.sum_bins(hops[second]))


def test_learned_carriers_are_tiles_of_one() -> None:
    rng = np.random.default_rng(3)
    write, read = rng.standard_normal((2, 5, FRAMES_PER_SECOND * 12)).astype(np.float32)
    learned = LearnedCarriers(5, 1, (TileBand(0, 12, 1),), write, read)
    slots = rng.choice([-1, 1], (4, 5))
    stream = learned.stream(slots)
    assert np.allclose(stream, (slots @ write).reshape(4, FRAMES_PER_SECOND, 12), atol=1e-5)
    assert np.array_equal(learned.sum_bins(stream), stream)
    assert np.allclose(learned.slot_llrs(stream), stream.reshape(4, -1) @ read.T, atol=1e-3)


def test_no_slots_leave_a_stream_empty() -> None:
    none = keyed_carriers(0, BINS, PUBLIC, b"none", CODE_TILE_FRAMES)
    assert not none.stream(np.zeros((2, 0))).any()
    assert none.slot_llrs(none.sum_bins(np.ones((2, FRAMES_PER_SECOND, BINS), np.float32))).shape == (2, 0)
