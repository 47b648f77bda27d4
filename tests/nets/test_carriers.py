"""Carriers in torch are those of numpy, and each slot is heard where it was written, at any phase of the ring."""

import numpy as np
import pytest
import torch
from torch import Tensor

from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES, SEGMENT_SAMPLES
from ideaw.modem import carriers as numpy_carriers
from ideaw.modem.carriers import MESSAGE_TILE_FRAMES
from ideaw.nets.build import build_dual_stage
from ideaw.nets.carriers import Carriers, keyed_carriers, rotate_ring
from ideaw.nets.config import PAPER_NET, NetConfig
from ideaw.nets.rivals.learned_carriers import INIT_BAND_BINS, LearnedSignals, LearnedStreams

BINS = NetConfig().bins


def _slots(number: int, slots: int) -> Tensor:
    return torch.randint(2, (number, slots)) * 2.0 - 1


def _learned(slots: int) -> LearnedSignals:
    return LearnedSignals(PAPER_NET, slots, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("slots", [1, 32, 98, 128])
def test_keyed_carriers_are_those_of_numpy(slots: int) -> None:
    in_torch = keyed_carriers(slots, BINS, "training", "message", "cpu")
    in_numpy = numpy_carriers.keyed_carriers(slots, BINS, b"training", b"message", MESSAGE_TILE_FRAMES)
    sent = _slots(3, slots)
    stream = in_torch.stream(sent, None)
    assert stream.shape == (3, FRAMES_PER_SECOND, BINS)
    assert np.array_equal(stream.numpy(), in_numpy.stream(sent.numpy()))
    received = torch.randn(3, FRAMES_PER_SECOND, BINS)
    # Both sum in single precision, in another order.
    expected = in_numpy.slot_llrs(in_numpy.sum_bins(received.numpy()))
    assert np.abs(in_torch.slot_llrs(received, None).numpy() - expected).max() < 1e-4 * np.abs(expected).max()


@pytest.mark.parametrize("slots", [32, 98])
def test_all_keyed_slots_together_fill_a_second_and_none_hears_another(slots: int) -> None:
    carriers = keyed_carriers(slots, BINS, "training", "code", "cpu")
    sent = _slots(4, slots)
    stream = carriers.stream(sent, None)
    assert torch.equal(stream.abs(), torch.ones_like(stream))
    llrs = carriers.slot_llrs(stream, None)
    assert torch.equal(llrs > 0, sent > 0)
    # As loud as a slot has numbers: all but the last tiles are dealt evenly.
    even = FRAMES_PER_SECOND * BINS / slots
    assert ((llrs.abs() - even).abs() < 3 * 2 * 2).all()


def test_message_and_code_have_carriers_of_their_own() -> None:
    for config in (NetConfig(), NetConfig(message_bits=10, message_slots=32), PAPER_NET):
        with torch.no_grad():
            message, code = build_dual_stage(config).carriers()
        message_map, code_map = message.write.sum(0).flatten(), code.write.sum(0).flatten()
        assert abs(float(message_map @ code_map / (message_map.norm() * code_map.norm()))) < 0.05


def test_keyed_carriers_are_no_users() -> None:
    training = keyed_carriers(98, BINS, "training", "message", "cpu").write.sum(0).flatten()
    users = numpy_carriers.keyed_carriers(
        98, BINS, b"ideaw public key 1", b"carriers of the message", MESSAGE_TILE_FRAMES
    )
    user = torch.from_numpy(users.stream(np.ones((1, 98)))).flatten()
    assert abs(float(training @ user)) < 0.05 * len(training)


@pytest.mark.parametrize("slots", [1, 10, 46])
def test_learned_carriers_begin_with_variance_one_and_readers_as_their_writers(slots: int) -> None:
    carriers = _learned(slots)
    assert carriers.write.shape == carriers.read.shape == (slots, SEGMENT_SAMPLES)
    # 16,000 independent samples tell a variance to about 1.1 %.
    assert float(carriers.write.detach().sum(0).var()) == pytest.approx(1, abs=0.05)
    sent = _slots(20, slots)
    with torch.no_grad():
        llrs = carriers().slot_llrs(carriers().stream(sent, None), None)
    assert torch.equal(llrs > 0, sent > 0)


@torch.no_grad()
def test_a_learned_carrier_is_a_signal_on_a_ring() -> None:
    carriers = _learned(3)
    before = carriers().stream(torch.eye(3), torch.full((3,), 5))
    carriers.write.copy_(carriers.write.roll(-5 * HOP_SAMPLES, 1))
    after = carriers().stream(torch.eye(3), None)
    assert torch.allclose(before, after, atol=1e-5)


@torch.no_grad()
def test_learned_streams_begin_as_bands_that_are_read_a_tenth_of_a_second_off() -> None:
    carriers = LearnedStreams(NetConfig(), 32, torch.Generator().manual_seed(1))()
    assert torch.equal(carriers.write, carriers.read)
    assert not carriers.write.sum(1).any()  # no mean, so that steady tones say nothing
    bins_of_slot = carriers.write[:, 0].abs().sum(1)
    assert set(bins_of_slot.tolist()) <= {INIT_BAND_BINS * 7.0, INIT_BAND_BINS * 8.0}
    sent, tenth = _slots(6, 32), FRAMES_PER_SECOND // 10
    llrs = carriers.slot_llrs(carriers.stream(sent, None).roll(tenth, 1), None)
    assert torch.equal(llrs > 0, sent > 0)
    assert (llrs.abs() >= 0.6 * FRAMES_PER_SECOND * bins_of_slot).all()


def test_rotating_begins_each_ring_at_its_own_frame() -> None:
    ring, phase = torch.randn(6, FRAMES_PER_SECOND, 8), torch.arange(6) * 13
    turned = rotate_ring(ring, phase)
    for after, before, by in zip(turned, ring, phase.tolist(), strict=True):
        assert torch.equal(after, before.roll(-by, 0))
    assert torch.equal(rotate_ring(turned, -phase), ring)
    assert torch.equal(rotate_ring(ring, phase + FRAMES_PER_SECOND), turned)
    assert torch.equal(rotate_ring(rotate_ring(ring, phase), phase), rotate_ring(ring, 2 * phase))
    assert rotate_ring(ring, None) is ring


@pytest.mark.parametrize(
    "carriers", [keyed_carriers(32, BINS, "training", "code", "cpu"), _learned(10)], ids=["keyed", "learned"]
)
@torch.no_grad()
def test_slots_are_heard_at_the_phase_they_were_written_at(carriers: Carriers | LearnedSignals) -> None:
    maps = carriers if isinstance(carriers, Carriers) else carriers()
    sent, phase = _slots(6, len(maps.write)), torch.arange(6) * 11 + 3
    stream = maps.stream(sent, phase)
    assert torch.equal(maps.slot_llrs(stream, phase) > 0, sent > 0)
    elsewhere = maps.slot_llrs(stream, phase + FRAMES_PER_SECOND // 2)
    assert elsewhere.abs().mean() < 0.2 * maps.slot_llrs(stream, phase).abs().mean()
