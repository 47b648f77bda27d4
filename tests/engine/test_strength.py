"""Level by construction: every second keeps its SNR, whatever the audio, and the gain makes no steps."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ideaw.engine.strength import fit, fit_to_grid

SECOND = 200


@st.composite
def audio_and_residual(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Noise whose level jumps from second to second, silence included, and a residual whose level does too."""
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    length = draw(st.integers(1, 6 * SECOND))
    levels = st.lists(st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 1.0]), min_size=6, max_size=6)
    audio, residual = (
        rng.standard_normal(length) * np.repeat(draw(levels), SECOND)[:length] for _ in ("audio", "residual")
    )
    return audio, residual


def _energies(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([(samples[start : start + SECOND] ** 2).sum() for start in range(0, len(samples), SECOND)])


def _keeps(audio: NDArray[np.float64], residual: NDArray[np.float64], snr: float) -> bool:
    return bool((_energies(residual) <= _energies(audio) * 10 ** (-snr / 10) * (1 + 1e-9)).all())


@given(audio_and_residual(), st.floats(0, 60))
def test_every_second_keeps_its_snr(given: tuple[NDArray[np.float64], NDArray[np.float64]], snr: float) -> None:
    audio, residual = given
    assert _keeps(audio, fit(residual, audio, snr, SECOND), snr)


@given(audio_and_residual(), st.floats(0, 60), st.sampled_from([0.0, 2.0**-15, 2.0**-7]))
def test_rounding_breaks_no_promise(
    given: tuple[NDArray[np.float64], NDArray[np.float64]], snr: float, step: float
) -> None:
    audio, residual = given
    if step:
        audio = np.rint(audio / step) * step
    fitted = fit_to_grid(residual, audio, snr, SECOND, step)
    assert _keeps(audio, fitted, snr)
    if step:
        assert np.array_equal(np.rint(fitted / step) * step, fitted)


def test_a_single_level_is_met_exactly() -> None:
    rng = np.random.default_rng(0)
    audio, residual = rng.standard_normal((2, SECOND))
    fitted = fit(residual, audio, 30, SECOND)
    assert abs(10 * np.log10(_energies(audio)[0] / _energies(fitted)[0]) - 30) < 1e-9


def test_only_weakens_where_told_so() -> None:
    rng = np.random.default_rng(0)
    audio, residual = rng.standard_normal((2, 4 * SECOND)) * [[1], [1e-4]]
    assert np.array_equal(fit_to_grid(residual, audio, 30, SECOND, 0), residual)


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6))
def test_the_gain_has_no_steps(levels: list[float]) -> None:
    audio = np.repeat(levels, SECOND)
    gains = fit(np.ones(len(audio)), audio, 0, SECOND)
    # From one node to the next, half a second on, the gain moves in a straight line.
    assert np.abs(np.diff(gains)).max() <= (max(levels) - min(levels)) / (SECOND / 2) + 1e-12
    middles = gains[SECOND // 2 :: SECOND]
    assert np.abs(middles - levels).max() <= (max(levels) - min(levels)) / SECOND + 1e-12
