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
