"""Carriers: where each bit lies when training begins, and that its reader hears it there."""

import pytest
import torch

from ideaw.audio.grid import BINS, FRAMES, SEGMENT
from ideaw.nets.regulators import TILE_BINS, TILE_FRAMES, Regulators, noise, tiles
from ideaw.nets.spectrum import stft

SLOTS, BANDS = FRAMES // TILE_FRAMES, (BINS - 1) // TILE_BINS


@pytest.mark.parametrize("kind", [tiles, noise])
@pytest.mark.parametrize("bits", [1, 10, 22, 46])
def test_all_carriers_together_have_variance_one(kind, bits: int) -> None:
    carriers = kind(bits, torch.Generator().manual_seed(bits))
    assert carriers.shape == (bits, SEGMENT)
    # 16,000 independent samples tell a variance to about 1.1 %.
    assert carriers.sum(0).var() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("bits", [10, 22, 46])
def test_each_tile_belongs_to_one_bit(bits: int) -> None:
    carriers = tiles(bits, torch.Generator().manual_seed(bits))
    power = stft(carriers, ring=True).abs().square()[..., : BANDS * TILE_BINS]
    power = power.view(bits, SLOTS, TILE_FRAMES, BANDS, TILE_BINS).sum((2, 4))
    # A window is as long as a tile, so a part of each leaks into the next in time; most stays with its owner.
    share = power.amax(0) / power.sum(0)
    assert share.min() > 0.5
    owner = power.argmax(0)
    counts = torch.bincount(owner.flatten(), minlength=bits)
    assert counts.max() - counts.min() <= 1, "some bits own more tiles than others"
    low, high = owner[:, : BANDS // 2], owner[:, BANDS // 2 :]
    halves = [torch.bincount(half.flatten(), minlength=bits) for half in (low, high)]
    assert (halves[0] - halves[1]).abs().max() <= 2, "some bits lie mostly in one half of the band"


@pytest.mark.parametrize("kind", ["tiles", "noise"])
@pytest.mark.parametrize("bits", [10, 46])
def test_the_reader_starts_as_the_writers_transpose(kind: str, bits: int) -> None:
    regulators = Regulators(bits, kind, seed=1)
    sent = torch.randint(2, (20, bits)) * 2.0 - 1
    heard = regulators.to_bits(regulators.to_signal(sent))
    assert torch.equal(heard > 0, sent > 0)
    assert 0.3 < heard.abs().mean() < 100


def test_message_and_code_have_carriers_of_their_own() -> None:
    first, second = (Regulators(10, "tiles", seed).write.detach().sum(0) for seed in (1, 2))
    assert abs(float(first @ second / (first.norm() * second.norm()))) < 0.05
