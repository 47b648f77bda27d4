"""Pictures for pages: drawn in the colour of the text around them, with every label and axis."""

import xml.etree.ElementTree as xml

import numpy as np
import pytest
from matplotlib import rc_context
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.quality import plots
from ideaw.quality.masking import masking


def words(picture: bytes) -> str:
    """What is written in an SVG picture."""
    texts = xml.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    return " ".join("".join(part.itertext()) for part in texts)


def test_shares_are_drawn_for_light_and_dark() -> None:
    values = {"right": [(50.0, 20.0, 80.0), (100.0, 34.2, 100.0)], "wrong": [(0.0, 0.0, 65.8), (0.0, 0.0, 65.8)]}
    labels = ["5 $ a < b", "a label that is so long that it takes another line"]
    picture = plots.shares(labels, values, "Answers", "share in %")
    said = words(picture)
    for part in ("Answers", "share in %", "right", "wrong", "5 $ a < b", "another line"):
        assert part in said
    assert b"currentColor" in picture
    assert b"#010203" not in picture
    assert picture == plots.shares(labels, values, "Answers", "share in %")


def test_a_series_without_values_leaves_the_others_their_colours() -> None:
    labels, values = ["a"], [(50.0, 20.0, 80.0)]
    whole = plots.shares(labels, {"right": values, "wrong": values, "none": values}, "Answers", "share in %")
    part = plots.shares(labels, {"right": values, "wrong": [], "none": values}, "Answers", "share in %")
    colours = [colour for colour in (b"#2a9d8f", b"#d1495b", b"#e9a23b") if colour in part]
    assert colours == [b"#2a9d8f", b"#e9a23b"]
    assert b"#d1495b" in whole
    assert b"wrong" not in part


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [1, 8])
def test_a_comparison_shows_noise_to_mask_over_time(speech: NDArray[np.float32], repeats: int) -> None:
    host = np.tile(speech, repeats)  # eight times have more frames than a picture has columns
    copy = host + 1e-4 * np.random.default_rng(0).standard_normal(len(host))
    copy[SAMPLE_RATE : SAMPLE_RATE + 400] += 0.05
    heard = masking(host, copy)
    assert (len(heard.frame_ratios) > plots.PLOT_COLUMNS) == (repeats > 1)
    with rc_context({"svg.fonttype": "none"}):
        said = words(plots.comparison(host[:, None], copy[:, None], SAMPLE_RATE, heard, ".svg"))
    for part in (
        "Waveform",
        "Noise to mask",
        "worst band",
        "mean over bands",
        "masking curve",
        "Original",
        "Difference",
    ):
        assert part in said
    assert f"most audible, at {heard.seconds[heard.most_audible]:.2f} s" in said
    assert 0.95 < heard.seconds[heard.most_audible] < 1.1


@pytest.mark.slow
def test_nothing_but_digital_silence_is_drawn_too() -> None:
    silence = np.zeros((SAMPLE_RATE, 1))
    picture = plots.comparison(silence, silence, SAMPLE_RATE, masking(silence[:, 0], silence[:, 0]))
    assert picture.startswith(b"\x89PNG")
