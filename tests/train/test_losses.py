"""The losses: which way each pulls."""

import pytest
import torch

from ideaw.train import losses


@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_integrity_falls_as_bits_are_read_right(kind: str) -> None:
    bits = torch.tensor([[1.0, -1.0, 1.0]])
    right, undecided, wrong = (float(losses.integrity(gain * bits, bits, kind)) for gain in (1.0, 0.0, -1.0))
    assert right < undecided < wrong


def test_focus_weighs_the_segment_at_the_border_most() -> None:
    bits = torch.ones(3, 4)
    llrs = torch.tensor([8.0, 0.43, -8.0])[:, None].expand(3, 4).clone().requires_grad_()
    pull = []
    for focus in (0.0, 4.0):
        (slope,) = torch.autograd.grad(losses.integrity(llrs, bits, "logistic", focus), llrs)
        pull.append(slope.abs().sum(1) / slope.abs().sum())
    even, focused = pull
    assert focused[1] > 2 * even[1]
    assert focused[2] < even[2]


def test_the_papers_distance_is_zero_where_bits_come_back_as_they_were() -> None:
    bits = torch.tensor([[1.0, -1.0]])
    assert losses.integrity(bits, bits, "squared") == 0


def test_perceptual_is_the_mean_square_of_the_residual() -> None:
    host = torch.zeros(2, 100)
    assert float(losses.perceptual(host + 0.1, host)) == pytest.approx(0.01)


def test_discriminator_and_embedder_pull_against_each_other() -> None:
    told_apart = float(losses.discriminate(torch.tensor([-3.0]), torch.tensor([3.0])))
    fooled = float(losses.discriminate(torch.tensor([-3.0]), torch.tensor([-3.0])))
    assert told_apart < fooled
    assert losses.identify(torch.tensor([3.0])) > losses.identify(torch.tensor([-3.0]))
