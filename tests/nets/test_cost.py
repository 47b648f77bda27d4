"""Parameters and multiply-adds: the counter agrees with sums done by hand."""

import pytest
from msgspec.structs import replace

from ideaw.audio.grid import FRAMES_PER_SECOND
from ideaw.nets.build import build_dual_stage
from ideaw.nets.config import PAPER_NET, NetConfig
from ideaw.nets.cost import count_multiply_adds, count_parameters

KERNEL = 3 * 3


def _layers(config: NetConfig, inputs: int, width: int, outputs: int) -> list[tuple[int, int]]:
    """(in, out) of every convolution of one subnet."""
    if config.subnet == "conv":
        return [(inputs, width), (width, width), (width, outputs)]
    return [(inputs + i * width, width) for i in range(4)] + [(inputs + 4 * width, outputs)]


def _numbers(config: NetConfig, layers: list[tuple[int, int]]) -> int:
    """Weights and offsets, with one offset per band and hidden channel in our own subnet."""
    per_band = layers[0][1] * config.bands if config.subnet == "conv" else 0
    return sum(a * b * KERNEL + b for a, b in layers) + per_band


def _condition_channels(config: NetConfig) -> int:
    """Channels of the conditioning of the nets that see the host: the envelope at every third bin of a band."""
    return (config.squeeze + 1) // 3 if config.domain == "magnitude" else 0


def _block(config: NetConfig, width: int) -> list[list[tuple[int, int]]]:
    """The subnets of one invertible block: the paper's four, or our two that give scale and shift together."""
    channels, seen = config.channels, config.channels + _condition_channels(config)
    if config.subnet == "conv":
        return [_layers(config, inputs, width, 2 * channels) for inputs in (channels, seen)]
    return [_layers(config, inputs, width, channels) for inputs in (channels, channels, seen, seen)]


def _balance(config: NetConfig) -> list[list[tuple[int, int]]]:
    seen = config.channels + _condition_channels(config)
    return [_layers(config, seen, config.balance_width, config.channels)] * config.balance_blocks


def _parameters_by_hand(config: NetConfig) -> dict[str, int]:
    shortcut = 2 if config.skip else 0
    stages = ((config.message_blocks, config.message_width), (config.code_blocks, config.code_width))
    one, two = (n * sum(_numbers(config, net) for net in _block(config, width)) + shortcut for n, width in stages)
    learned = config.message_slots + config.code_slots if config.carriers == "learned" else 0
    own = {} if config.shared else {"extractor's stage 1": one, "extractor's stage 2": two}
    return own | {
        "stage 1": one,
        "stage 2": two,
        "balance block": sum(_numbers(config, net) for net in _balance(config)),
        "carriers": learned * 2 * 16_000 + 2,  # and how many log-odds a reading of each kind is worth
    }


def _multiply_adds_by_hand(config: NetConfig) -> dict[str, int]:
    def work(nets: list[list[tuple[int, int]]]) -> int:
        return sum(a * b for net in nets for a, b in net) * KERNEL * FRAMES_PER_SECOND * config.bands

    blocks = [_block(config, width) for width in (config.message_width, config.code_width)]
    one, two = (n * work(b) for n, b in zip((config.message_blocks, config.code_blocks), blocks, strict=True))
    # The nets of the first block that change the host: they are needed to read what lies under that stage alone.
    last_of_one, last_of_two = (work(block[: len(block) // 2]) for block in blocks)
    last_of_two *= min(config.code_blocks, 1)
    locate = work(_balance(config)) + two - last_of_two
    return {"embed": one + two, "locate": locate, "message": locate + last_of_two + one - last_of_one}


@pytest.mark.slow
@pytest.mark.parametrize(
    "config", [NetConfig(), NetConfig(shared=False), PAPER_NET, NetConfig(squeeze=10, message_blocks=3)]
)
def test_parameters_are_those_counted_by_hand(config: NetConfig) -> None:
    assert count_parameters(build_dual_stage(config)) == _parameters_by_hand(config)


@pytest.mark.parametrize(
    "config",
    [
        NetConfig(),
        NetConfig(shared=False),
        NetConfig(code_bits=0, code_slots=0, code_blocks=0),
        replace(PAPER_NET, message_blocks=2, code_blocks=1),
    ],
)
def test_multiply_adds_are_those_counted_by_hand(config: NetConfig) -> None:
    assert count_multiply_adds(build_dual_stage(config)) == _multiply_adds_by_hand(config)


def test_the_papers_network_has_its_size() -> None:
    assert count_parameters(build_dual_stage(PAPER_NET))["stage 1"] == 3_844_480
    work = _multiply_adds_by_hand(PAPER_NET)
    assert work["message"] - work["locate"] == pytest.approx(125e9, rel=0.03)  # 64 frames a second, not its 65
