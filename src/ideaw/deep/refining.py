"""A small network that weighs evidence by what is around it: where a host moves by itself, a tile tells less.

Two layers of convolution over 13 frames and 7 bands, 3,000 weights, in numpy. It sees whitened log energies, how loud
tiles are and the linear evidence, and no key, so the bound on accidents holds for what it says as for anything else. It
is trained on marked clips after codecs (`benchmarks/deep_network.py`).
"""

from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from ideaw.deep.bands import NUM_MEL_BANDS

REFINING_FILE = "refining.npz"
"""`kernel1`, `kernel2` (outputs, inputs, frames, bands), `kernel3` (2, inputs), `bias1` to `bias3`, and `scale`."""

MAX_LOG_WEIGHT = 2.0
"""Largest natural logarithm of the weight that linear evidence gets."""

BLOCK_FRAMES = 512
"""Frames that are worked on at once, so that all of it stays in a processor's cache."""


def refine(white: NDArray[np.float32], share: NDArray[np.float32], linear: NDArray[np.float32]) -> NDArray[np.float32]:
    """Evidence for the sign of a tile centred on each frame.

    Args:
        white: (frames, NUM_MEL_BANDS) whitened log energies, clipped.
        share: the same shape, how loud each tile is, from 0 to 1.
        linear: the same shape, linear evidence of standard deviation 1.
    """
    weights = _weights()
    places = np.broadcast_to(np.linspace(-1, 1, NUM_MEL_BANDS, dtype=np.float32), white.shape)
    seen = np.stack([white, 2 * share - 1, linear, places], -1)
    margin = sum(weights[name].shape[2] // 2 for name in ("kernel1", "kernel2"))
    padded = np.pad(seen, ((margin, margin), (0, 0), (0, 0)))
    refined = np.empty_like(linear)
    for start in range(0, len(linear), BLOCK_FRAMES):
        stop = min(start + BLOCK_FRAMES, len(linear))
        hidden = _convolve(padded[start : stop + 2 * margin], weights["kernel1"], weights["bias1"])
        reach = margin - weights["kernel1"].shape[2] // 2  # what lies outside is nothing, not what nothing becomes
        frames = np.arange(start - reach, stop + reach)
        hidden[(frames < 0) | (frames >= len(linear))] = 0
        hidden = _convolve(hidden, weights["kernel2"], weights["bias2"])
        log_weight, added = np.moveaxis(hidden @ weights["kernel3"].T + weights["bias3"], -1, 0)
        gain = weights["scale"] * np.exp(np.clip(log_weight, -MAX_LOG_WEIGHT, MAX_LOG_WEIGHT))
        refined[start:stop] = gain * linear[start:stop] + added
    return refined


def _convolve(seen: NDArray[np.float32], kernel: NDArray[np.float32], bias: NDArray[np.float32]) -> NDArray[np.float32]:
    """(frames, bands, inputs) → (frames − kernel's + 1, bands, outputs), what is negative set to 0."""
    outputs, _, frames, bands = kernel.shape
    count = len(seen) - frames + 1
    padded = np.pad(seen, ((0, 0), (bands // 2, bands // 2), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, bands, 1)
    rows = windows.reshape(*windows.shape[:2], -1)  # of one frame; the kernel's frames are added up one by one
    out = np.tile(bias, (count, windows.shape[1], 1))
    for frame in range(frames):
        out += rows[frame : frame + count] @ kernel[:, :, frame].reshape(outputs, -1).T
    return np.asarray(np.maximum(out, 0, out=out))


@cache
def _weights() -> dict[str, NDArray[np.float32]]:
    with files("ideaw.deep").joinpath(REFINING_FILE).open("rb") as file, np.load(file) as stored:
        return {name: np.asarray(stored[name], np.float32) for name in stored}
