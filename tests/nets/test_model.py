"""Segments in, slots out: levels, phases, invariances, and what it can do before any training."""

import pytest
import torch
import torch.nn.functional as F
from msgspec.structs import replace
from torch import Tensor

from ideaw.audio.grid import FRAMES_PER_SECOND, NUM_BINS
from ideaw.nets.build import build_dual_stage
from ideaw.nets.carriers import Carriers
from ideaw.nets.config import PAPER_NET, NetConfig
from ideaw.nets.level import scale_to_snr
from ideaw.nets.model import Ideaw, untie_extractor

Both = tuple[Tensor, Tensor]

TINY = {"message_blocks": 1, "code_blocks": 1, "message_width": 2, "code_width": 2, "balance_width": 2}
SMALL_PAPER = replace(PAPER_NET, message_slots=12, code_slots=6, squeeze=20, **(TINY | {"message_blocks": 2}))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def model() -> Ideaw:
    """The default network, untrained."""
    torch.manual_seed(2)
    return Ideaw(NetConfig()).eval()


@pytest.fixture(scope="module")
def carriers(model: Ideaw) -> tuple[Carriers, Carriers]:
    return model.carriers()


@pytest.fixture(scope="module")
def slots() -> Both:
    """Of message and code for six segments."""
    return _slots(NetConfig())


@pytest.fixture(scope="module")
def marked(model: Ideaw, carriers: tuple[Carriers, Carriers], seconds: Tensor, slots: Both) -> Tensor:
    """The six segments with a strong mark."""
    with torch.no_grad():
        return model.embed(seconds, *slots, 21.0, carriers)


def _slots(config: NetConfig) -> Both:
    generator = torch.Generator().manual_seed(3)
    message, code = (
        torch.randint(2, (6, n), generator=generator) * 2.0 - 1 for n in (config.message_slots, config.code_slots)
    )
    return message, code


def _right(llrs: Both, slots: Both) -> float:
    return float(((torch.cat(llrs, 1) > 0) == (torch.cat(slots, 1) > 0)).float().mean())


def _snr(marked: Tensor, audio: Tensor) -> Tensor:
    residual = marked.double() - audio.double()
    return 10 * torch.log10(audio.double().square().sum(1) / residual.square().sum(1))


@pytest.mark.slow
@pytest.mark.parametrize("gain", [1.0, 0.25])
@pytest.mark.parametrize("config", [NetConfig(), SMALL_PAPER], ids=["ours", "paper"])
@torch.no_grad()
def test_every_segment_keeps_the_snr_that_was_asked_for(seconds: Tensor, config: NetConfig, gain: float) -> None:
    asked = torch.linspace(20, 45, len(seconds))
    model = build_dual_stage(config)
    marked = model.embed(seconds * gain, *_slots(config), asked, model.carriers())
    assert (_snr(marked, seconds * gain) - asked).abs().max() < 0.01


@pytest.mark.slow
@torch.no_grad()
def test_quiet_segments_keep_it_too(
    model: Ideaw, carriers: tuple[Carriers, Carriers], seconds: Tensor, slots: Both
) -> None:
    quiet = seconds * (10 ** (-50 / 20) / seconds.square().mean(1, keepdim=True).sqrt())
    marked = model.embed(quiet, *slots, 21.0, carriers)
    assert (_snr(marked, quiet) - 21).abs().max() < 0.01
    assert _right(model.extract(marked, carriers), slots) > 0.82  # 0.84 with these seeds, 0.5 by chance


@pytest.mark.slow
@torch.no_grad()
def test_without_a_limit_the_residual_is_the_networks_own(
    model: Ideaw, carriers: tuple[Carriers, Carriers], seconds: Tensor, slots: Both, marked: Tensor
) -> None:
    free = model.embed(seconds, *slots, None, carriers)
    limited = seconds + scale_to_snr(free - seconds, seconds, 21.0)
    assert torch.allclose(limited, marked, atol=1e-6)


@pytest.mark.slow
@torch.no_grad()
def test_the_untrained_network_reads_its_mark(
    model: Ideaw, carriers: tuple[Carriers, Carriers], seconds: Tensor, slots: Both, marked: Tensor
) -> None:
    # Single slots; the codes above them bear a quarter of them wrong.
    assert _right(model.extract(marked, carriers), slots) > 0.82  # 0.84 with these seeds, 0.5 by chance
    assert abs(_right(model.extract(seconds, carriers), slots) - 0.5) < 0.1


@pytest.mark.slow
@torch.no_grad()
def test_the_papers_network_reads_its_mark_too_if_it_has_our_shortcuts(seconds: Tensor) -> None:
    """Without them its couplings start from nothing, and a random auxiliary signal drowns what there is."""
    config = replace(SMALL_PAPER, skip=0.3, auxiliary="zero")
    model, slots = build_dual_stage(config), _slots(config)
    marked = model.embed(seconds, *slots, 21.0, model.carriers())
    assert _right(model.extract(marked, model.carriers()), slots) > 0.9


@pytest.mark.slow
@torch.no_grad()
def test_stage_one_alone_is_read_without_stage_two(
    model: Ideaw, carriers: tuple[Carriers, Carriers], seconds: Tensor, slots: Both
) -> None:
    message, _ = slots
    alone = model.embed(seconds, message, None, 21.0, carriers)
    read = model.extract_first_stage(alone, carriers)
    assert float(((read > 0) == (message > 0)).float().mean()) > 0.95


@pytest.mark.slow
@torch.no_grad()
def test_a_mark_is_read_at_the_phase_it_was_embedded_at(
    model: Ideaw, carriers: tuple[Carriers, Carriers], seconds: Tensor, slots: Both
) -> None:
    phase = torch.arange(len(seconds)) * 11 % FRAMES_PER_SECOND
    marked = model.embed(seconds, *slots, 21.0, carriers, phase)
    right = [
        _right(model.extract(marked, carriers, phase + by), slots)
        for by in (0, FRAMES_PER_SECOND, FRAMES_PER_SECOND // 2)
    ]
    assert right[0] == right[1] > 0.84
    assert abs(right[2] - 0.5) < 0.1


@pytest.mark.slow
@torch.no_grad()
def test_polarity_changes_nothing(model: Ideaw, carriers: tuple[Carriers, Carriers], marked: Tensor) -> None:
    for changed, original in zip(model.extract(-marked, carriers), model.extract(marked, carriers), strict=True):
        assert torch.equal(changed, original)


@pytest.mark.slow
@torch.no_grad()
def test_half_a_hop_changes_little(model: Ideaw, carriers: tuple[Carriers, Carriers], marked: Tensor) -> None:
    """Frames at other places see nearly the same magnitudes; the phases of most bins turn by half a circle and more."""
    late = F.pad(marked, (125, 0))[:, :-125]
    before, after = (torch.cat(model.extract(audio, carriers), 1) for audio in (marked, late))
    assert torch.corrcoef(torch.stack([before.flatten(), after.flatten()]))[0, 1] > 0.97


@pytest.mark.slow
@torch.no_grad()
def test_gain_changes_little(model: Ideaw, carriers: tuple[Carriers, Carriers], marked: Tensor) -> None:
    for changed, original in zip(model.extract(0.1 * marked, carriers), model.extract(marked, carriers), strict=True):
        assert (changed - original).norm() < 1e-3 * original.norm()


@torch.no_grad()
def test_a_frame_reaches_no_further_than_the_context_says() -> None:
    config = NetConfig(6, 3, 8, 4, balance_blocks=2, **TINY)  # type: ignore[arg-type]
    model, at = build_dual_stage(config), max(config.context.values()) + 20
    frames = 2 * at
    spectrum, streams = torch.randn(1, frames, NUM_BINS, 2), torch.randn(2, 1, frames, config.bins)
    _, *state = model.locate(spectrum)
    inputs = {"mark": (spectrum, *streams), "locate": (spectrum,), "read": state}
    assert set(inputs) == set(config.context)
    for name, given in inputs.items():
        moved = [tensor.clone() for tensor in given]
        for tensor in moved:
            tensor.select(2 if name == "read" else 1, at).add_(1)
        before, after = (_by_frame(getattr(model, name)(*tensors)) for tensors in (given, moved))
        changed = (before != after).any(1).nonzero()
        assert changed.min() >= at - config.context[name]
        assert changed.max() <= at + config.context[name]
        assert len(changed) > 5


def _by_frame(given: Tensor | tuple[Tensor, ...]) -> Tensor:
    """(frames, numbers) of what a function gives out: its stream or spectrum, and what it leaves for `read`."""
    if isinstance(given, Tensor):
        return given[0].flatten(1)
    code, host, _, squeezed_code = given
    return torch.cat([code[0], *(tensor[0].transpose(0, 1).flatten(1) for tensor in (host, squeezed_code))], 1)


@torch.no_grad()
def test_a_random_auxiliary_signal_is_drawn_anew_and_zero_is_not(seconds: Tensor) -> None:
    for auxiliary, same in (("zero", True), ("random", False)):
        net = Ideaw(NetConfig(4, 4, 8, 8, auxiliary=auxiliary, **TINY))  # type: ignore[arg-type]
        first, second = (torch.cat(net.extract(seconds[:1], net.carriers()), 1) for _ in range(2))
        assert torch.equal(first, second) is same


@pytest.mark.parametrize("domain", ["magnitude", "spectrum"])
@torch.no_grad()
def test_keyed_carriers_serve_both_domains(seconds: Tensor, domain: str) -> None:
    config = NetConfig(4, 4, 8, 8, domain=domain, **TINY)  # type: ignore[arg-type]
    model, slots = build_dual_stage(config), _slots(config)
    marked = model.embed(seconds, *slots, 15.0, model.carriers())
    assert _right(model.extract(marked, model.carriers()), slots) > 0.9


@pytest.mark.slow
@torch.no_grad()
def test_an_extractor_of_its_own_begins_as_the_embedders_blocks_and_then_goes_its_way(
    model: Ideaw, carriers: tuple[Carriers, Carriers], marked: Tensor, seconds: Tensor, slots: Both
) -> None:
    own = Ideaw(replace(NetConfig(), shared=False)).eval()
    own.load_state_dict(untie_extractor(model.state_dict()))
    before = model.extract(marked, carriers)
    assert all(torch.equal(a, b) for a, b in zip(own.extract(marked, carriers), before, strict=True))

    for parameter in (p for stage in (own.message_reader, own.code_reader) if stage for p in stage.parameters()):
        parameter += 0.01 * torch.randn_like(parameter)
    assert torch.equal(own.embed(seconds, *slots, 21.0, carriers), marked)
    assert not any(torch.equal(a, b) for a, b in zip(own.extract(marked, carriers), before, strict=True))
