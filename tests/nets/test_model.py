"""Segments in, bits out: squeezing, levels, phases, and what the network can do before any training."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ideaw.audio.grid import BINS, FRAMES, HOP
from ideaw.nets.config import NetConfig
from ideaw.nets.model import Ideaw, limit, turn

TINY = {"message_blocks": 1, "code_blocks": 1, "message_width": 2, "code_width": 2, "balance_width": 2}


@pytest.fixture(scope="module")
def model() -> Ideaw:
    """The default network, untrained."""
    torch.manual_seed(2)
    return Ideaw(NetConfig()).eval()


@pytest.fixture(scope="module")
def bits() -> tuple[Tensor, Tensor]:
    """Message and code for six segments."""
    generator = torch.Generator().manual_seed(3)
    return tuple(torch.randint(2, (6, n), generator=generator) * 2.0 - 1 for n in (46, 10))  # type: ignore[return-value]


def _right(logits: tuple[Tensor, Tensor], bits: tuple[Tensor, Tensor]) -> float:
    return float(((torch.cat(logits, 1) > 0) == (torch.cat(bits, 1) > 0)).float().mean())


def _snr(marked: Tensor, audio: Tensor) -> Tensor:
    residual = marked.double() - audio.double()
    return 10 * torch.log10(audio.double().square().sum(1) / residual.square().sum(1))


@settings(max_examples=25, deadline=None)
@given(fold=st.integers(1, 250), frames=st.integers(1, 70))
def test_unsqueezing_undoes_squeezing(fold: int, frames: int) -> None:
    config = NetConfig(message_bits=1, code_bits=1, squeeze=fold, carriers="noise", **TINY)  # type: ignore[arg-type]
    net = Ideaw(config)
    spectrum = torch.randn(2, frames, BINS, dtype=torch.complex64)
    squeezed = net.squeeze(spectrum)
    assert squeezed.shape == (2, config.channels, frames, config.bands)
    back = net.unsqueeze(squeezed)
    used = config.bands * config.squeeze
    assert torch.equal(back[..., :used], spectrum[..., :used])
    assert back.shape == spectrum.shape
    assert not back[..., used:].any()
    assert used > BINS - 1 - fold


@pytest.mark.parametrize("gain", [1.0, 0.25])
@torch.no_grad()
def test_every_segment_keeps_the_snr_that_was_asked_for(
    model: Ideaw, seconds: Tensor, bits: tuple[Tensor, Tensor], gain: float
) -> None:
    asked = torch.linspace(20, 45, len(seconds))
    marked = model.embed(seconds * gain, *bits, asked)
    assert (_snr(marked, seconds * gain) - asked).abs().max() < 0.01


@torch.no_grad()
def test_quiet_segments_keep_it_too(model: Ideaw, seconds: Tensor, bits: tuple[Tensor, Tensor]) -> None:
    quiet = seconds * (10 ** (-50 / 20) / seconds.square().mean(1, keepdim=True).sqrt())
    marked = model.embed(quiet, *bits, 36.0)
    assert (_snr(marked, quiet) - 36).abs().max() < 0.01
    assert _right(model.extract(marked), bits) > 0.9


@torch.no_grad()
def test_without_a_limit_the_residual_is_the_networks_own(
    model: Ideaw, seconds: Tensor, bits: tuple[Tensor, Tensor]
) -> None:
    free = model.embed(seconds, *bits, None)
    limited = seconds + limit(free - seconds, seconds, 30.0)
    assert torch.allclose(limited, model.embed(seconds, *bits, 30.0), atol=1e-6)


@torch.no_grad()
def test_the_untrained_network_reads_its_mark(model: Ideaw, seconds: Tensor, bits: tuple[Tensor, Tensor]) -> None:
    marked = model.embed(seconds, *bits, 21.0)
    assert _right(model.extract(marked), bits) > 0.97
    assert abs(_right(model.extract(seconds), bits) - 0.5) < 0.1


@torch.no_grad()
def test_stage_one_alone_is_read_without_stage_two(model: Ideaw, seconds: Tensor, bits: tuple[Tensor, Tensor]) -> None:
    message, _ = bits
    alone = model.embed(seconds, message, None, 21.0)
    read = model.extract_first_stage(alone)
    assert float(((read > 0) == (message > 0)).float().mean()) > 0.97


@torch.no_grad()
def test_a_mark_is_read_at_the_phase_it_was_embedded_at(
    model: Ideaw, seconds: Tensor, bits: tuple[Tensor, Tensor]
) -> None:
    phase = torch.arange(len(seconds)) * 11 % FRAMES
    marked = model.embed(seconds, *bits, 21.0, phase)
    assert _right(model.extract(marked, phase), bits) > 0.97
    assert _right(model.extract(marked, phase + FRAMES), bits) > 0.97
    assert abs(_right(model.extract(marked, phase + FRAMES // 2), bits) - 0.5) < 0.1


def test_turning_begins_each_ring_at_its_own_frame(seconds: Tensor) -> None:
    phase = torch.arange(len(seconds))
    turned = turn(seconds, phase)
    assert torch.equal(turned[3], seconds[3].roll(-3 * HOP))
    assert torch.equal(turn(turned, -phase), seconds)
    assert turn(seconds, None) is seconds


@torch.no_grad()
def test_a_random_auxiliary_signal_is_drawn_anew_and_zero_is_not(seconds: Tensor) -> None:
    for auxiliary, same in (("zero", True), ("random", False)):
        net = Ideaw(NetConfig(message_bits=4, code_bits=4, auxiliary=auxiliary, **TINY))  # type: ignore[arg-type]
        first, second = (torch.cat(net.extract(seconds[:1]), 1) for _ in range(2))
        assert torch.equal(first, second) is same
