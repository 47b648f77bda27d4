"""Both stages are exact in both directions, whatever their weights, if the watermark stream comes back too."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from ideaw.nets.blocks import START, ConvSubnet, DenseSubnet
from ideaw.nets.config import PAPER, NetConfig
from ideaw.nets.domains import fold
from ideaw.nets.model import Ideaw, Stage
from ideaw.nets.spectrum import level, stft

NETS = {
    "ours": NetConfig(),
    "ours, 40 bands": NetConfig(squeeze=12, message_width=16, code_width=16),
    "ours, on the spectrum": NetConfig(domain="spectrum", message_width=16, code_width=16),
    "paper, fewer blocks": replace(PAPER, message_blocks=4, code_blocks=2),
}


def _awake(config: NetConfig, last: float) -> Ideaw:
    """A network whose subnets' last layers are `last` times as strong as they would be without their quiet start."""
    model = Ideaw(config)
    for subnet in model.modules():
        if isinstance(subnet, ConvSubnet | DenseSubnet):
            layer = subnet.leave if isinstance(subnet, ConvSubnet) else subnet.layers[-1]
            assert isinstance(layer, nn.Conv2d)
            with torch.no_grad():
                layer.weight *= last / START
                layer.bias *= last / START
    return model


def _streams(model: Ideaw, audio: Tensor, frames: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Some frames of host, message and code as the stages get them, and of what they are told besides."""
    config = model.config
    host, side = model.domain.look(torch.view_as_real(stft(audio / level(audio))))
    message, code = (
        fold(found.stream(torch.randint(2, (len(audio), len(found.write))) * 2.0 - 1, None), config.parts, config.bands)
        for found in model.carriers()
    )
    return host[:, :, :frames], message[:, :, :frames], code[:, :, :frames], side[:, :, :frames]


def _relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


def _assert_inverts(stage: Stage, x: Tensor, s: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
    """Through the stage and back; what came out on the way, for the next stage."""
    after, left = stage(x, s, side)
    assert _relative(after, x) > 0.1, "the couplings hardly touch the host"
    assert _relative(left, s) > 0.1, "the couplings hardly touch the watermark stream"
    x_left, s_back = stage.find(after, left, side)
    assert _relative(x_left, x) > 0.01, "nothing is left to be cleared"
    assert _relative(stage.clear(x_left, s_back), x) < 1e-4
    assert _relative(s_back, s) < 1e-4
    return after, left


@pytest.mark.parametrize("name", NETS)
@torch.no_grad()
def test_each_stage_inverts_exactly(seconds: Tensor, name: str) -> None:
    model = _awake(NETS[name], 1.0)
    host, message, code, side = _streams(model, seconds[[1, 4]], 20)
    after, _ = _assert_inverts(model.message_stage, host, message, side)
    _assert_inverts(model.code_stage, after, code, side)


@torch.no_grad()
def test_the_papers_sixteen_and_eight_blocks_invert_exactly(seconds: Tensor) -> None:
    model = _awake(PAPER, 1.0)
    assert (len(model.message_stage.blocks), len(model.code_stage.blocks)) == (16, 8)
    host, message, code, side = _streams(model, seconds[[1, 4]], 5)
    after, _ = _assert_inverts(model.message_stage, host, message, side)
    _assert_inverts(model.code_stage, after, code, side)


@torch.no_grad()
def test_without_its_watermark_stream_a_stage_does_not_invert(seconds: Tensor) -> None:
    model = _awake(NETS["ours"], 1.0)
    host, message, _, side = _streams(model, seconds[[1, 4]], 20)
    after, _ = model.message_stage(host, message, side)
    back = model.message_stage.clear(*model.message_stage.find(after, torch.zeros_like(message), side))
    assert _relative(back, host) > 0.01


@pytest.mark.parametrize("config", [NetConfig(message_blocks=1), replace(PAPER, message_blocks=1, code_blocks=1)])
@torch.no_grad()
def test_scales_stay_within_the_clamp(config: NetConfig) -> None:
    model = _awake(config, 1000.0)
    scale, _ = model.message_stage.blocks[0].to_host(torch.randn(1, config.channels, 8, config.bands))
    assert 0.9 * config.clamp < scale.abs().max() <= config.clamp
