"""Level by construction: every second keeps its SNR, whatever the audio, and the gain makes no steps."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ideaw.engine.gain import GainEnvelope, bound_on_grid, fit_to_grid, limit, limit_on_grid, on_grid

SECOND = 200

NO_LIMITS = np.empty(0)


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


def _gains(limits: list[float], second: int = SECOND) -> NDArray[np.float64]:
    """The whole envelope, from the limits of all seconds."""
    envelope = GainEnvelope(second)
    return np.concatenate(
        [*(envelope.push(np.array([value])) for value in limits), envelope.push(NO_LIMITS, last=True)]
    )


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


def test_channels_do_not_touch_each_other() -> None:
    rng = np.random.default_rng(1)
    audio, residual = rng.standard_normal((2, 3 * SECOND, 3)) * [[[1e-3, 0, 1]], [[1e-3, 1e-3, 1e-5]]]
    together = fit_to_grid(residual, audio, 6, SECOND, 2.0**-15)
    for channel in range(3):
        alone = fit_to_grid(residual[:, channel], audio[:, channel], 6, SECOND, 2.0**-15)
        assert np.array_equal(together[:, channel], alone)


def test_the_limit_is_met_exactly() -> None:
    rng = np.random.default_rng(0)
    audio, residual = rng.standard_normal((2, SECOND))
    fitted = residual * limit(residual, audio, 30)
    assert abs(10 * np.log10(_energies(audio)[0] / _energies(fitted)[0]) - 30) < 1e-9


def test_there_is_nothing_in_silence_and_nothing_from_nothing() -> None:
    rng = np.random.default_rng(0)
    noise, silence = rng.standard_normal(SECOND), np.zeros(SECOND)
    assert limit(noise, silence, 30) == limit(silence, noise, 30) == limit(silence, silence, 30) == 0


def test_only_weakens() -> None:
    rng = np.random.default_rng(0)
    audio, residual = rng.standard_normal((2, 4 * SECOND)) * [[1], [1e-4]]
    assert np.array_equal(fit_to_grid(residual, audio, 30, SECOND, 0), residual)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.integers(2, 201))
def test_the_gain_has_no_steps_and_exceeds_no_limit(limits: list[float], second: int) -> None:
    gains = _gains(limits, second)
    assert len(gains) == len(limits) * second
    assert (gains <= np.repeat(limits, second) + 1e-12).all()
    # From one node to the next, half a second on, the gain moves in a straight line.
    assert np.abs(np.diff(gains)).max() <= (max(limits) - min(limits)) / (second / 2) + 1e-12
    middles = gains[second // 2 :: second]
    assert np.abs(middles - limits).max() <= (max(limits) - min(limits)) / second + 1e-12


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_a_limit_settles_the_gain_up_to_its_middle(limits: list[float]) -> None:
    envelope, gains = GainEnvelope(SECOND), _gains(limits)
    for number, value in enumerate(limits):
        settled = envelope.push(np.array([value]))
        stop = number * SECOND + SECOND // 2
        assert np.array_equal(settled, gains[stop - len(settled) : stop])


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=6), st.integers(1, 5))
def test_seconds_may_come_one_by_one_or_together(limits: list[tuple[float, float]], first: int) -> None:
    values, together, parted = np.array(limits), GainEnvelope(SECOND), GainEnvelope(SECOND)
    pieces = [parted.push(part) for part in (values[:first], values[first:]) if len(part)]
    assert np.array_equal(np.concatenate(pieces), together.push(values))
    assert np.array_equal(parted.push(values[:0], last=True), together.push(values[:0], last=True))


@settings(deadline=None)
@given(st.floats(-6, 0), st.floats(0.01, 2), st.sampled_from([0.0, 2.0**-15, 2.0**-7]), st.integers(0, 99))
def test_a_bound_leaves_what_is_wanted_and_keeps_its_snr(level: float, wanted: float, step: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    audio, residual = rng.standard_normal((2, SECOND, 2)) * [[[10**level, 1]], [[0.01, 0]]]
    bounds = bound_on_grid(residual, audio, 26, step, np.full(2, wanted))
    assert bounds[1] == 0
    for gain in (bounds, np.minimum(bounds, wanted)):
        assert _keeps(audio, on_grid(residual * gain, step), 26)
    exact = limit_on_grid(residual, audio, 26, step, np.float64(np.inf))
    assert (step and bounds[0] >= 2 * wanted) or bounds[0] == exact[0]
