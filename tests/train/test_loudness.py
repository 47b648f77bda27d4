"""Audible disturbance of a mark: nothing where it is masked, more where the host is quiet."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from ideaw.quality.fidelity import pesq
from ideaw.train.loudness import disturbance


@pytest.fixture(scope="module")
def host(speech: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(speech[:64_000].reshape(4, 16_000).copy())


def _noise(host: Tensor, snr: float) -> Tensor:
    noise = torch.randn(host.shape, generator=torch.Generator().manual_seed(1))
    return noise * (host.norm(dim=1) / noise.norm(dim=1) * 10 ** (-snr / 20))[:, None]


def test_the_same_audio_is_not_disturbed(host: Tensor) -> None:
    assert disturbance(host, host).max() < 1e-5


def test_a_small_change_of_level_is_masked_and_a_large_one_heard(host: Tensor) -> None:
    assert disturbance(1.05 * host, host).max() < 1e-5
    assert disturbance(2 * host, host).min() > 0.01


def test_level_does_not_matter(host: Tensor) -> None:
    marked = host + _noise(host, 30)
    assert torch.allclose(disturbance(0.01 * marked, 0.01 * host), disturbance(marked, host), rtol=1e-3)


def test_noise_is_heard_more_than_a_residual_of_the_same_energy_in_the_host_itself(host: Tensor) -> None:
    noise, itself = _noise(host, 30), 10 ** (-30 / 20) * host
    assert (disturbance(host + noise, host) > 10 * disturbance(host + itself, host)).all()


def test_what_pesq_likes_less_is_disturbed_more(host: Tensor) -> None:
    copies = [host + _noise(host, snr) for snr in (45.0, 38.0, 30.0, 20.0)]
    disturbances = [float(disturbance(copy, host).mean()) for copy in copies]
    scores = [pesq(host.flatten().numpy(), copy.flatten().numpy()) for copy in copies]
    assert disturbances == sorted(disturbances)
    assert scores == sorted(scores, reverse=True)


def test_the_gradient_is_finite_where_nothing_is_heard(host: Tensor) -> None:
    marked = host.clone().requires_grad_()
    disturbance(marked, host).sum().backward()
    assert marked.grad is not None
    assert marked.grad.isfinite().all()
