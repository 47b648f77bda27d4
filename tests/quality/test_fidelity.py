"""How far audio is from its host: what each ratio counts."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ideaw.quality import fidelity


def test_a_scale_invariant_ratio_does_not_care_about_level_or_offset(speech: NDArray[np.float32]) -> None:
    noisy = speech + 0.01 * np.random.default_rng(0).standard_normal(len(speech))
    wanted = fidelity.si_snr(speech, noisy)
    assert wanted == pytest.approx(fidelity.snr(speech, noisy), abs=0.05)
    assert fidelity.si_snr(speech, 0.25 * noisy + 0.1) == pytest.approx(wanted)
    assert fidelity.snr(speech, 0.25 * noisy) < 3
    assert fidelity.si_snr(speech, 0.5 * speech) > 100


def test_a_delay_is_undone_whatever_the_polarity(speech: np.ndarray) -> None:
    later = np.concatenate([np.zeros(300, np.float32), -speech])
    before, after = fidelity.align(speech, later, 400)
    assert len(before) == len(after) == len(speech) - 300
    assert (after == -before).all()
    before, after = fidelity.align(later, speech, 400)
    assert (after == -before).all()
