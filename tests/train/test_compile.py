"""Compiled blocks do what they do uncompiled: results and gradients, whole blocks without a break."""

import copy
import os
from functools import partial

import pytest
import torch
from torch import Tensor

from ideaw.audio.grid import SEGMENT_SAMPLES
from ideaw.nets.model import Ideaw
from ideaw.train.loop import compile_blocks

from .conftest import OURS

with_a_compiler = pytest.mark.skipif(
    "IDEAW_TEST_COMPILER" not in os.environ, reason="the C++ compiler takes a minute: set IDEAW_TEST_COMPILER"
)


def _read(model: Ideaw) -> Tensor:
    """All slots of two segments of noise, marked and read; gradients are left in the parameters."""
    generator, config = torch.Generator().manual_seed(1), model.config
    audio = 0.1 * torch.randn(2, SEGMENT_SAMPLES, generator=generator)
    message, code = torch.ones(2, config.message_slots), -torch.ones(2, config.code_slots)
    carriers = model.carriers()
    marked = model.embed(audio, message, code, 20.0, carriers)
    llrs = torch.cat(model.extract(marked, carriers), 1)
    llrs.square().mean().backward()
    return llrs.detach()


def _assert_alike() -> None:
    torch.manual_seed(1)
    plain = Ideaw(OURS.net)
    compiled = copy.deepcopy(plain)
    compile_blocks(compiled)
    expected, actual = _read(plain), _read(compiled)
    # Single precision, perhaps in another order.
    assert (actual - expected).abs().max() < 1e-4 * expected.abs().max()
    for (name, parameter), reference in zip(compiled.named_parameters(), plain.parameters(), strict=True):
        assert parameter.grad is not None, name
        assert reference.grad is not None, name
        assert (parameter.grad - reference.grad).norm() <= 1e-4 * reference.grad.norm(), name
    assert plain.state_dict().keys() == compiled.state_dict().keys()


@pytest.mark.slow
def test_traced_blocks_are_whole_and_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.compiler.reset()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager", fullgraph=True))
    _assert_alike()


@with_a_compiler
def test_compiled_blocks_give_the_same() -> None:
    torch.compiler.reset()
    _assert_alike()
