"""The network that refines evidence: numpy computes what was trained, and it tells more than what it refines."""

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw
from ideaw.attacks.resynthesis import gsm
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.deep import refining
from ideaw.deep.bands import NUM_MEL_BANDS, analyse, measuring_bands, powers
from ideaw.deep.decode import decode, fold
from ideaw.deep.evidence import evidence, linear_evidence
from ideaw.deep.signs import KeyPattern
from ideaw.deep.words import Word
from ideaw.payload.message import Message

KEY = ideaw.Key(bytes(range(32)))


@pytest.mark.parametrize("frames", [3, 40, refining.BLOCK_FRAMES, 2 * refining.BLOCK_FRAMES + 7])
def test_numpy_computes_what_torch_trained(frames: int) -> None:
    torch = pytest.importorskip("torch")
    weights = {name: torch.from_numpy(array) for name, array in refining._weights().items()}
    rng = np.random.default_rng(frames)
    white, share, linear = rng.standard_normal((3, frames, NUM_MEL_BANDS)).astype(np.float32)
    places = torch.linspace(-1, 1, NUM_MEL_BANDS).expand(frames, NUM_MEL_BANDS)
    hidden = torch.stack([*map(torch.from_numpy, (white, 2 * share - 1, linear)), places])[None]
    for number in (1, 2):
        kernel = weights[f"kernel{number}"]
        padding = kernel.shape[2] // 2, kernel.shape[3] // 2
        hidden = torch.relu(torch.conv2d(hidden, kernel, weights[f"bias{number}"], padding=padding))
    log_weight, added = torch.conv2d(hidden, weights["kernel3"][..., None, None], weights["bias3"])[0]
    gain = weights["scale"] * torch.exp(log_weight.clamp(-refining.MAX_LOG_WEIGHT, refining.MAX_LOG_WEIGHT))
    expected = (gain * torch.from_numpy(linear) + added).numpy()
    assert np.allclose(refining.refine(white, share, linear), expected, atol=1e-4)


def test_refined_evidence_tells_more_after_a_telephone(speech: NDArray[np.float32]) -> None:
    host = np.concatenate([speech, 0.8 * speech[::-1]])
    marked = ideaw.load(key=KEY, threads=1).embed(host, SAMPLE_RATE, "ab", layers="deep")
    power = powers(analyse(gsm(marked).astype(np.float32))) @ measuring_bands()
    pattern, word = KeyPattern(KEY), Word.of(Message("ab"), KEY)
    refined, linear = (decode(fold(heard(power)), pattern, [word])[1].score for heard in (evidence, linear_evidence))
    assert refined > 1.05 * linear
