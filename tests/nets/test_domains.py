"""What the blocks see of a spectrum, and how a change of it becomes a residual."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from torch import Tensor

from ideaw.audio import masking
from ideaw.audio.grid import FRAMES_PER_SECOND, NUM_BINS, WINDOW_SAMPLES
from ideaw.nets.config import PAPER_NET, NetConfig
from ideaw.nets.domains import (
    CONDITION_STRIDE_BINS,
    ENVELOPE_BINS,
    ENVELOPE_POWER_FLOOR,
    MagnitudeDomain,
    SpectrumDomain,
    envelope,
    squeeze_bins,
    unsqueeze_bins,
)
from ideaw.nets.level import level
from ideaw.nets.stft import stft


@pytest.fixture(scope="module")
def spectra(seconds: Tensor) -> Tensor:
    """Six seconds as the network takes them, (6, FRAMES_PER_SECOND, NUM_BINS, 2)."""
    return torch.view_as_real(stft(seconds / level(seconds)))


def _complex(spectrum: Tensor) -> Tensor:
    return torch.view_as_complex(spectrum.contiguous())


@settings(max_examples=25, deadline=None)
@given(squeeze=st.integers(1, 250), frames=st.integers(1, 70), components=st.sampled_from([1, 2]))
def test_unfolding_undoes_folding(squeeze: int, frames: int, components: int) -> None:
    config = NetConfig(squeeze=squeeze, domain="magnitude" if components == 1 else "spectrum")
    lines = torch.randn(2, frames, components * config.bins)
    folded = squeeze_bins(lines, components, config.bands)
    assert folded.shape == (2, config.channels, frames, config.bands)
    assert torch.equal(unsqueeze_bins(folded, components), lines)
    assert NUM_BINS - 1 - squeeze < config.bins < NUM_BINS


def test_channels_are_neighbouring_bins() -> None:
    lines = torch.arange(480.0).expand(1, 1, 480)
    assert torch.equal(squeeze_bins(lines, 1, 20)[0, :, 0, 3], torch.arange(72.0, 96.0))


def test_the_papers_domain_is_the_spectrum_itself(spectra: Tensor) -> None:
    domain = SpectrumDomain(PAPER_NET)
    host, condition = domain.analyse(spectra)
    assert host.shape == (6, 2, FRAMES_PER_SECOND, NUM_BINS - 1)
    assert condition.shape[1] == domain.condition_channels == 0
    back = domain.to_residual(spectra, host)
    assert torch.equal(back[..., :-1, :], spectra[..., :-1, :])
    assert not back[..., -1, :].any()


def test_magnitudes_do_not_depend_on_phases(spectra: Tensor) -> None:
    domain = MagnitudeDomain(NetConfig())
    host, condition = domain.analyse(spectra)
    assert host.shape == (6, 24, FRAMES_PER_SECOND, 20)
    assert condition.shape == (6, domain.condition_channels, FRAMES_PER_SECOND, 20)
    for same, exactly in ((-spectra, True), (spectra.flip(-1), True), (_turned(spectra), False)):
        for changed, original in zip(domain.analyse(same), (host, condition), strict=True):
            assert torch.equal(changed, original) or (not exactly and torch.allclose(changed, original, atol=1e-3))


def _turned(spectra: Tensor) -> Tensor:
    """The same magnitudes with random phases."""
    angle = 2 * math.pi * torch.rand(spectra.shape[:-1])
    return torch.view_as_real(_complex(spectra) * torch.polar(torch.ones_like(angle), angle))


def test_loud_and_quiet_look_alike_and_the_side_tells_which(spectra: Tensor) -> None:
    domain, quiet, loud = MagnitudeDomain(NetConfig()), 100 * spectra, 800 * spectra
    (host, condition), (host_loud, condition_loud) = domain.analyse(quiet), domain.analyse(loud)
    audible = envelope(quiet[..., :480, :].square().sum(-1)) > 1e3 * ENVELOPE_POWER_FLOOR
    assert audible.float().mean() > 0.9, "this is silence"
    audible = squeeze_bins(audible.float(), 1, 20) > 0
    assert (host_loud - host)[audible].abs().max() < 0.02
    assert ((condition_loud - condition)[audible[:, 1::CONDITION_STRIDE_BINS]] - 0.25 * math.log(64)).abs().max() < 1e-3


def test_silence_stays_finite() -> None:
    silence = torch.zeros(1, 3, NUM_BINS, 2, requires_grad=True)
    domain = MagnitudeDomain(NetConfig())
    host, condition = domain.analyse(silence)
    residual = domain.to_residual(silence, torch.ones_like(host))
    assert not residual.any()
    (host.sum() + condition.sum() + residual.sum()).backward()
    assert silence.grad is not None
    assert silence.grad.isfinite().all()


def test_a_residual_is_the_host_louder_or_softer(spectra: Tensor) -> None:
    config = NetConfig()
    change = torch.randn(6, config.channels, FRAMES_PER_SECOND, config.bands)
    residual = MagnitudeDomain(config).to_residual(spectra, change)
    assert not residual[..., config.bins :, :].any()
    gain = _complex(residual)[..., : config.bins] / _complex(spectra)[..., : config.bins]
    assert (gain.imag.abs() <= 1e-3 * gain.real.abs()).all()
    assert torch.equal(gain.real > 0, unsqueeze_bins(change, 1) > 0)


@pytest.mark.parametrize("shaping", [0.0, 0.4, 1.0])
def test_a_residual_follows_a_power_of_the_envelope(spectra: Tensor, shaping: float) -> None:
    config = NetConfig(shaping=shaping)
    residual = MagnitudeDomain(config).to_residual(
        spectra, torch.ones(6, config.channels, FRAMES_PER_SECOND, config.bands)
    )
    power, host = (both[..., : config.bins, :].square().sum(-1) for both in (residual, spectra))
    assert torch.allclose(power, host * envelope(host) ** (shaping - 1), rtol=1e-3)


def test_a_residual_stays_near_the_masking_curve_where_there_is_a_headroom(spectra: Tensor) -> None:
    change = torch.randn(6, NetConfig().channels, FRAMES_PER_SECOND, NetConfig().bands)
    free, bound = (
        MagnitudeDomain(replace(NetConfig(), headroom=headroom)).to_residual(spectra, change)
        for headroom in (None, 20.0)
    )
    bins = NetConfig().bins
    bands = masking.BarkBands.for_window(WINDOW_SAMPLES, bins)
    host, before, after = (pairs[..., :bins, :].square().sum(-1).double().numpy() for pairs in (spectra, free, bound))
    curve = masking.masking_curve(host, bands, np.log10)
    was, left = (10 * np.log10(power @ bands.inside.T / curve) for power in (before, after))
    assert 0.05 < np.mean(was > 20) < 0.95
    assert left.max() < 20.01
    assert left[was < 19.99] == pytest.approx(was[was < 19.99], abs=1e-3)  # what is soft enough stays


def test_the_envelope_is_the_mean_around_a_bin_of_its_own_frame() -> None:
    power = torch.zeros(1, 3, 100)
    power[0, 1, 50] = 1
    around = envelope(power) - ENVELOPE_POWER_FLOOR
    near = ENVELOPE_BINS // 2
    assert around[0, 1, 50 - near : 51 + near] == pytest.approx(1 / ENVELOPE_BINS, rel=1e-5)
    assert float(around.sum()) == pytest.approx(1, rel=1e-4)
