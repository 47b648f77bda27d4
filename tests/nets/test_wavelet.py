"""The rival on wavelets: its transform is orthonormal, its mark is read at once, and its level is expected."""

import torch
from torch import Tensor

from ideaw.attacks.batch import TRAINING
from ideaw.attacks.draw import Draw
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.nets.build import build_network
from ideaw.nets.config import NetConfig
from ideaw.nets.cost import count_multiply_adds, count_parameters
from ideaw.nets.rivals.wavelet import DB4_LOWPASS, KERNEL_TAPS, NUM_COEFFICIENTS, WaveletNet

CONFIG = NetConfig(
    message_bits=9,
    message_slots=9,
    message_blocks=3,
    message_width=4,
    code_bits=0,
    code_slots=0,
    code_blocks=0,
    balance_blocks=0,
    domain="wavelet",
    carriers="learned",
)


def _model() -> WaveletNet:
    model = build_network(CONFIG)
    assert isinstance(model, WaveletNet)
    return model.eval()


def _bits(number: int) -> Tensor:
    return torch.randint(2, (number, 9), generator=torch.Generator().manual_seed(3)) * 2.0 - 1


@torch.no_grad()
def test_the_approximation_holds_the_lower_half_of_the_band_and_no_more() -> None:
    model, time = _model(), torch.arange(SAMPLE_RATE) / SAMPLE_RATE
    for frequency, expected in ((1_000, 1.0), (7_000, 0.0)):
        tone = torch.sin(2 * torch.pi * frequency * time)[None]
        assert abs(float(model._approximation(tone).square().sum() / tone.square().sum()) - expected) < 0.01
    for shift in range(0, len(DB4_LOWPASS), 2):
        taps = torch.tensor(DB4_LOWPASS, dtype=torch.float64)
        product = float((taps[shift:] * taps[: len(taps) - shift]).sum())
        assert abs(product - (shift == 0)) < 1e-9


@torch.no_grad()
def test_a_residual_of_the_approximation_comes_back_whole(seconds: Tensor) -> None:
    model = _model()
    model.encoder.leave.weight.zero_()
    model.encoder.leave.bias.zero_()  # type: ignore[union-attr]
    stream = model.carriers()[0].stream(_bits(6), None)
    back = model._approximation(model.mark(seconds, stream))
    inner = slice(KERNEL_TAPS, -KERNEL_TAPS)  # the ends of a filtered segment are cut off
    assert torch.allclose(back[:, inner], stream.flatten(1)[:, inner], atol=1e-5)
    assert back.shape == (6, NUM_COEFFICIENTS)


@torch.no_grad()
def test_untrained_it_reads_its_strong_mark_also_recorded_again(seconds: Tensor) -> None:
    model, bits, phase = _model(), _bits(6), torch.arange(6) * 7
    marked = model.embed(seconds, bits, None, 10.0, model.carriers(), phase)
    power = seconds.square().sum(1) / (marked - seconds).square().sum(1)
    assert (10 * power.log10() - 10).abs().max() < 0.01
    message, code = model.extract(marked, model.carriers(), phase)
    assert torch.equal(message > 0, bits > 0)
    assert code.shape == (6, 0)
    recorded = TRAINING["rerecord"](marked, Draw.at(1, 1, "cpu"))
    right = (model.extract(recorded, model.carriers(), phase)[0] > 0) == (bits > 0)
    assert right.float().mean() > 0.8


def test_its_cost_is_counted() -> None:
    weights = KERNEL_TAPS * (2 * 4 + 4 * 4 + 4)
    model = _model()
    assert count_parameters(model)["encoder"] == weights + 4 + 4 + 1
    assert count_multiply_adds(model)["embed"] == NUM_COEFFICIENTS * weights
