"""Both stages are exact in both directions, whatever their weights, if the watermark stream comes back too."""

import pytest
import torch
from msgspec.structs import replace
from torch import Tensor, nn

from ideaw.nets.blocks import LAST_LAYER_INIT_GAIN, ConvSubnet, DenseSubnet
from ideaw.nets.build import build_dual_stage
from ideaw.nets.config import PAPER_NET, NetConfig
from ideaw.nets.domains import squeeze_bins
from ideaw.nets.level import level
from ideaw.nets.model import Ideaw, Stage
from ideaw.nets.stft import stft

NETS = {
    "ours": NetConfig(),
    "ours, 40 bands": NetConfig(squeeze=12, message_width=16, code_width=16),
    "ours, on the spectrum": NetConfig(domain="spectrum", message_width=16, code_width=16),
    "paper, fewer blocks": replace(PAPER_NET, message_blocks=4, code_blocks=2),
}


def _awake(config: NetConfig, last: float) -> Ideaw:
    """A network whose subnets' last layers are `last` times as strong as they would be without their quiet start."""
    model = build_dual_stage(config)
    for subnet in model.modules():
        if isinstance(subnet, ConvSubnet | DenseSubnet):
            layer = subnet.leave if isinstance(subnet, ConvSubnet) else subnet.layers[-1]
            assert isinstance(layer, nn.Conv2d)
            with torch.no_grad():
                layer.weight *= last / LAST_LAYER_INIT_GAIN
                layer.bias *= last / LAST_LAYER_INIT_GAIN
    return model


def _streams(model: Ideaw, audio: Tensor, frames: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Some frames of host, message and code as the stages get them, and of the conditioning."""
    config = model.config
    host, condition = model.domain.analyse(torch.view_as_real(stft(audio / level(audio))))
    message, code = (
        squeeze_bins(
            carriers.stream(torch.randint(2, (len(audio), len(carriers.write))) * 2.0 - 1, None),
            config.components,
            config.bands,
        )
        for carriers in model.carriers()
    )
    return host[:, :, :frames], message[:, :, :frames], code[:, :, :frames], condition[:, :, :frames]


def _relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


def _assert_inverts(stage: Stage, x: Tensor, s: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
    """Through the stage and back; what came out on the way, for the next stage."""
    after, left = stage(x, s, condition)
    assert _relative(after, x) > 0.1, "the couplings hardly touch the host"
    assert _relative(left, s) > 0.1, "the couplings hardly touch the watermark stream"
    x_left, s_back = stage.invert_mark(after, left, condition)
    assert _relative(x_left, x) > 0.01, "nothing is left to be inverted"
    assert _relative(stage.invert_host(x_left, s_back), x) < 1e-4
    assert _relative(s_back, s) < 1e-4
    return after, left


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
@torch.no_grad()
def test_each_stage_inverts_exactly(seconds: Tensor, name: str) -> None:
    model = _awake(NETS[name], 1.0)
    host, message, code, condition = _streams(model, seconds[[1, 4]], 20)
    after, _ = _assert_inverts(model.message_stage, host, message, condition)
    _assert_inverts(model.code_stage, after, code, condition)


@pytest.mark.slow
@torch.no_grad()
def test_the_papers_sixteen_and_eight_blocks_invert_exactly(seconds: Tensor) -> None:
    model = _awake(PAPER_NET, 1.0)
    assert (len(model.message_stage.blocks), len(model.code_stage.blocks)) == (16, 8)
    host, message, code, condition = _streams(model, seconds[[1, 4]], 5)
    after, _ = _assert_inverts(model.message_stage, host, message, condition)
    _assert_inverts(model.code_stage, after, code, condition)


@torch.no_grad()
def test_without_its_watermark_stream_a_stage_does_not_invert(seconds: Tensor) -> None:
    model = _awake(NETS["ours"], 1.0)
    host, message, _, condition = _streams(model, seconds[[1, 4]], 20)
    after, _ = model.message_stage(host, message, condition)
    back = model.message_stage.invert_host(
        *model.message_stage.invert_mark(after, torch.zeros_like(message), condition)
    )
    assert _relative(back, host) > 0.01


@pytest.mark.parametrize("config", [NetConfig(message_blocks=1), replace(PAPER_NET, message_blocks=1, code_blocks=1)])
@torch.no_grad()
def test_scales_stay_within_the_clamp(config: NetConfig) -> None:
    model = _awake(config, 1000.0)
    scale, _ = model.message_stage.blocks[0].to_host(torch.randn(1, config.channels, 8, config.bands))
    assert 0.9 * config.clamp < scale.abs().max() <= config.clamp
