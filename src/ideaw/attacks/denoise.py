"""Removal of noise by the programs of a studio: thresholds on wavelets, spectral subtraction, FFmpeg's afftdn; and
loudness as platforms normalise it, by FFmpeg's loudnorm.

The same contract as in `arrays.py`: float (n,) or (n, channels) at any rate, in and out.
"""

from typing import Any

import numpy as np

from ideaw.attacks.channels import fit_length, per_channel, require
from ideaw.errors import MissingExtraError

GAUSSIAN_MEDIAN = 0.6745
"""Median of the magnitude of Gaussian noise of deviation 1."""

QUIET_SHARE = 0.1
"""Share of the frames, the quietest, that are taken for noise alone."""

SUBTRACTION_WINDOW_SECONDS, SUBTRACTION_FLOOR = 0.032, 0.05
"""Window of spectral subtraction, and the least gain that it gives."""

LOUDNORM_PEAK_DBTP, LOUDNORM_RANGE_LU = -1.5, 11
"""True peak and range that loudness is normalised to."""

GRAPH_BLOCK_SAMPLES = 1 << 16
"""Samples that go into FFmpeg's filters at once."""


def wavelet(
    samples: np.ndarray, rate: int, rng: np.random.Generator, levels: int = 5, factor: float = 1.0
) -> np.ndarray:
    """Soft thresholds on Haar wavelets, at `factor` times the universal threshold (Donoho and Johnstone, 1994)."""
    require(1 <= levels <= 12, f"wavelets have 1 to 12 levels here, not {levels}")
    require(factor >= 0, f"a threshold is 0 times the universal one or more, not {factor:g}")

    def one(x: np.ndarray) -> np.ndarray:
        low, details = np.pad(x, (0, -len(x) % (1 << levels))), []
        for _ in range(levels):
            even, odd = low[::2], low[1::2]
            low = (even + odd) / np.sqrt(2)
            details.append((even - odd) / np.sqrt(2))
        limit = factor * np.median(abs(details[0])) / GAUSSIAN_MEDIAN * np.sqrt(2 * np.log(max(len(x), 2)))
        for detail in reversed(details):
            kept = np.sign(detail) * (abs(detail) - limit).clip(0)
            low = np.stack([low + kept, low - kept], 1).ravel() / np.sqrt(2)
        return np.asarray(low[: len(x)])

    return per_channel(samples, one)


def subtract(samples: np.ndarray, rate: int, rng: np.random.Generator, over: float = 1.0) -> np.ndarray:
    """Spectral subtraction (Boll, 1979): `over` times the mean magnitude of the quietest tenth of all frames."""
    require(over >= 0, f"what is subtracted is 0 times the noise or more, not {over:g}")
    hop = max(8, round(SUBTRACTION_WINDOW_SECONDS * rate / 2))
    window = np.sqrt(np.hanning(2 * hop + 1)[:-1])

    def one(x: np.ndarray) -> np.ndarray:
        padded = np.pad(x, (hop, hop + -len(x) % hop))
        spectra = np.fft.rfft(np.lib.stride_tricks.sliding_window_view(padded, 2 * hop)[::hop] * window)
        size = abs(spectra)
        loudness = np.square(size).sum(1)
        quiet = size[np.argsort(loudness)[: max(1, round(QUIET_SHARE * len(size)))]].mean(0)
        gains = np.maximum(1 - over * quiet / np.maximum(size, 1e-12), SUBTRACTION_FLOOR)
        halves = (np.fft.irfft(spectra * gains, 2 * hop) * window).reshape(-1, 2, hop)
        return np.asarray((halves[1:, 0] + halves[:-1, 1]).ravel()[: len(x)])

    return per_channel(samples, one)


def afftdn(
    samples: np.ndarray, rate: int, rng: np.random.Generator, reduction: float = 12.0, floor: float = -40.0
) -> np.ndarray:
    """FFmpeg's removal of noise in the spectrum, by `reduction` dB where there is no more than a `floor` in dBFS."""
    require(0.01 <= reduction <= 97, f"afftdn reduces by 0.01 to 97 dB, not {reduction:g}")
    require(-80 <= floor <= -20, f"afftdn knows floors from −80 to −20 dBFS, not {floor:g}")
    return _through_ffmpeg(samples, rate, "afftdn", {"nr": f"{reduction:g}", "nf": f"{floor:g}"})


def loudnorm(samples: np.ndarray, rate: int, rng: np.random.Generator, lufs: float = -14.0) -> np.ndarray:
    """FFmpeg's loudness normalisation (EBU R128) in one pass, to `lufs`: gain that follows, and a limiter."""
    require(-70 <= lufs <= -5, f"loudness is normalised to −70 to −5 LUFS, not to {lufs:g}")
    settings = {"I": f"{lufs:g}", "TP": f"{LOUDNORM_PEAK_DBTP:g}", "LRA": f"{LOUDNORM_RANGE_LU}"}
    return _through_ffmpeg(samples, rate, "loudnorm", settings)


def _through_ffmpeg(samples: np.ndarray, rate: int, name: str, settings: dict[str, str]) -> np.ndarray:
    """A filter of FFmpeg on each channel, or on pairs of them; same rate and length out."""
    try:
        import av
    except ImportError:
        raise MissingExtraError('this attack needs PyAV; install it with: pip install "ideaw[formats]"') from None
    planes = np.atleast_2d(samples.T)
    done = [_filter_planes(av, planes[k : k + 2], rate, name, settings) for k in range(0, len(planes), 2)]
    joined = np.concatenate(done).T.astype(samples.dtype)
    return fit_length(joined.reshape(-1, *samples.shape[1:]), len(samples))


def _filter_planes(av: Any, planes: np.ndarray, rate: int, name: str, settings: dict[str, str]) -> np.ndarray:
    layout = "mono" if len(planes) == 1 else "stereo"
    graph = av.filter.Graph()
    chain = [
        graph.add_abuffer(sample_rate=rate, format="fltp", layout=layout),
        graph.add(name, **settings),
        graph.add("aformat", sample_fmts="fltp", sample_rates=str(rate), channel_layouts=layout),
        graph.add("abuffersink"),
    ]
    graph.link_nodes(*chain).configure()
    out: list[np.ndarray] = []
    for begin in range(0, planes.shape[1], GRAPH_BLOCK_SAMPLES):
        block = np.ascontiguousarray(planes[:, begin : begin + GRAPH_BLOCK_SAMPLES], np.float32)
        frame = av.AudioFrame.from_ndarray(block, format="fltp", layout=layout)
        frame.sample_rate, frame.pts = rate, begin
        graph.push(frame)
        _drain(av, graph, out)
    graph.push(None)
    _drain(av, graph, out)
    return np.concatenate(out, 1) if out else np.zeros((len(planes), 0))


def _drain(av: Any, graph: Any, out: list[np.ndarray]) -> None:
    while True:
        try:
            out.append(graph.pull().to_ndarray())
        except (av.error.BlockingIOError, av.error.EOFError):
            return
