"""Pictures of a mark, as the paper draws them: waveform with tenfold residual, spectrograms, where a mark was found.

Drawn without pyplot, so that nothing depends on a display; needs matplotlib, from the extra `bench`.
"""

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from textwrap import fill

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from ideaw.audio.blocks import mix
from ideaw.engine.correlate import TRACK_SCORE_OFFSET
from ideaw.quality.masking import Masking
from ideaw.results import Detection

PLOT_EXTENSIONS = (".png", ".svg", ".pdf")
"""Extensions that can be drawn."""

RESIDUAL_GAIN = 10
"""What the residual is multiplied by to be seen, as in the paper's figures."""

PLOT_COLUMNS = 2_000
"""Points across a picture; longer audio is drawn as its envelope, so that hours cost no more than seconds."""

LABEL_LETTERS = 34
"""Letters of a label in one line."""

SPECTROGRAM_WINDOW_SAMPLES = 1_024
SPECTROGRAM_RANGE_DB = 90.0
"""Samples of a spectrogram's window, and the dB it shows below its peak."""

NOISE_TO_MASK_RANGE_DB = 60.0
"""dB of noise to mask that are shown, below the highest."""

PANEL_INCHES = (6.0, 2.9)
"""Width and height of a panel that is a file of its own."""

PANEL_COLUMNS = 700
"""Points across a panel, which is a smaller picture than others."""

DETAIL_SAMPLES = 100
"""Samples of a waveform that are shown closely, around its peak."""

Clips = Mapping[str, tuple[NDArray[np.floating], NDArray[np.floating]]]
"""Title → host and marked."""

_INK = "#010203"
"""Where an SVG picture has this colour, it gets that of the text around it."""

_SCHEMES = b"<style>:root{color:#1c2330}@media(prefers-color-scheme:dark){:root{color:#e6e9ee}}</style>"
"""Gives an SVG picture in a file of its own the colour of text in light and dark pages."""

_HOST, _RESIDUAL, _MARKED, _UNREAD = "#8a96a8", "#d1495b", "#2a9d8f", "#e9a23b"


def levels(over: tuple[float, ...], accuracy: dict[str, list[float]], suffix: str = ".png") -> bytes:
    """A picture of how well bits are read (in per cent, attack by attack) over the level of the audio in dBFS."""
    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for name, values in accuracy.items():
        axes.plot(over, values, marker="o", label=name)
    axes.set(title="Quiet and loud audio", xlabel="level in dBFS", ylabel="bits right in %")
    axes.grid(alpha=0.3)
    axes.legend(ncols=3)
    return _render(figure, suffix)


def lengths(rates: Mapping[str, Sequence[tuple[float, float, float]]], suffix: str = ".png") -> bytes:
    """A picture of seconds, messages that were read and marks that were found, in per cent: for each label a line and a
    dotted one."""
    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for label, rows in rates.items():
        at, read, found = zip(*rows, strict=True)
        (line,) = axes.plot(at, read, marker="o", label=label)
        axes.plot(at, found, linestyle="dotted", color=line.get_color())
    axes.set_xscale("log")
    seconds = sorted({row[0] for rows in rates.values() for row in rows})
    axes.set_xticks(seconds, [f"{at:g}" for at in seconds])
    axes.minorticks_off()
    axes.set(title="How much audio a mark needs", xlabel="seconds that are marked")
    axes.set_ylabel("messages read right in %\n(dotted: marks found)")
    axes.set_ylim(0, 103)
    axes.grid(alpha=0.3)
    axes.legend()
    return _render(figure, suffix)


def shares(
    labels: Sequence[str],
    series: Mapping[str, Sequence[tuple[float, float, float]]],
    title: str,
    axis: str,
) -> bytes:
    """An SVG picture of values in per cent with their intervals (value, low, high), a line for each label.

    It is drawn without a background, in the colour of the text around it, for pages that are light or dark. A series
    without values is left out, and the others keep their colours and places, so that pictures can be compared.
    """
    colours = (_MARKED, _RESIDUAL, _UNREAD, _HOST)
    wrapped = [fill(label, LABEL_LETTERS) for label in labels]
    lines = sum(1 + label.count("\n") for label in wrapped)
    figure = Figure(figsize=(5.6, 1.2 + 0.11 * len(labels) + 0.15 * lines), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    for number, (name, values) in enumerate(series.items()):
        if not values:
            continue
        middle, low, high = np.array(values).T
        places = np.arange(len(labels)) + (number - (len(series) - 1) / 2) * 0.22
        beside = np.maximum([middle - low, high - middle], 0)
        colour = colours[number % len(colours)]
        axes.errorbar(middle, places, xerr=beside, fmt="o", ms=4, lw=1, color=colour, label=name)
    axes.set(xlim=(-3, 103), ylim=(len(labels) - 0.5, -0.5))
    axes.set_yticks(range(len(labels)), wrapped, fontsize=8, parse_math=False)
    axes.set_title(title, color=_INK, fontsize=10)
    axes.set_xlabel(axis, color=_INK, fontsize=9)
    axes.tick_params(colors=_INK, labelsize=8)
    axes.grid(alpha=0.25, axis="x", color=_HOST)
    for spine in axes.spines.values():
        spine.set_color(_HOST)
    figure.legend(loc="outside lower center", ncols=len(series), frameon=False, labelcolor=_INK, fontsize=8)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        return _render(figure, ".svg", Date=None).replace(_INK.encode(), b"currentColor")


def comparison(
    host: NDArray[np.floating], marked: NDArray[np.floating], rate: int, masking: Masking, suffix: str = ".png"
) -> bytes:
    """A picture of two `(n, channels)` recordings: the first and the tenfold difference, how far that lies over the
    masking curve from moment to moment, spectrograms of both and of it, and the moment at which it is most audible."""
    first, second = mix(host), mix(marked)
    figure = Figure(figsize=(10, 12.5), dpi=120, layout="constrained")
    grid = figure.add_gridspec(4, 2)
    _draw_with_residual(figure.add_subplot(grid[0, :]), first, second - first, rate, "original")
    _draw_noise_to_mask(figure.add_subplot(grid[1, :]), masking, len(first) / rate)
    spectra = {
        "Original": _spectrogram(first),
        "Copy": _spectrogram(second),
        "Difference": _spectrogram(second - first),
    }
    top = max(float(spectrum.max()) for spectrum in spectra.values())
    panels = [figure.add_subplot(place) for place in (grid[2, 0], grid[2, 1], grid[3, 0])]
    for axes, (title, spectrum) in zip(panels, spectra.items(), strict=True):
        picture = _draw_spectrogram(axes, spectrum, top, len(first) / rate, rate)
        axes.set_title(title)
    figure.colorbar(picture, ax=panels, label="level in dB")
    _draw_most_audible(figure.add_subplot(grid[3, 1]), masking)
    return _render(figure, suffix)


def panels(host: NDArray[np.floating], marked: NDArray[np.floating], rate: int, masking: Masking) -> dict[str, bytes]:
    """The panels of `comparison` as SVG files of their own, for pages that are light or dark.

    Args:
        host, marked: `(n, channels)` at `rate` Hz.
        masking: Of both.

    Returns:
        "waveform", "noise-to-mask", "host" and "difference" (spectrograms), "moment" → the content of a file.
    """
    first, second = mix(host), mix(marked)
    seconds, residual = len(first) / rate, second - first
    top = float(_spectrogram(first).max())

    def spectrogram(figure: Figure, signal: NDArray[np.floating], title: str) -> None:
        axes = figure.add_subplot()
        picture = _draw_spectrogram(axes, _spectrogram(signal), top, seconds, rate)
        axes.set_title(title)
        figure.colorbar(picture, ax=axes, label="level in dB")

    draw: dict[str, Callable[[Figure], None]] = {
        "waveform": lambda figure: _draw_with_residual(
            figure.add_subplot(), first, residual, rate, "host", columns=PANEL_COLUMNS
        ),
        "noise-to-mask": lambda figure: _draw_noise_to_mask(figure.add_subplot(), masking, seconds, legend_columns=2),
        "host": lambda figure: spectrogram(figure, first, "Spectrogram of the host"),
        "difference": lambda figure: spectrogram(figure, residual, "Spectrogram of the difference"),
        "moment": lambda figure: _draw_most_audible(figure.add_subplot(), masking, "host"),
    }
    drawn = {}
    with rc_context(
        {
            "text.color": _INK,
            "axes.labelcolor": _INK,
            "xtick.color": _INK,
            "ytick.color": _INK,
            "legend.frameon": False,
            "font.size": 9,
        }
    ):
        for name, fill_in in draw.items():
            figure = Figure(figsize=PANEL_INCHES, dpi=84, layout="constrained")
            fill_in(figure)
            drawn[name] = _adaptive(figure, name)
    return drawn


def waveforms(clips: Clips, rate: int, suffix: str = ".png") -> bytes:
    """The paper's picture of `(n,)` clips side by side: host over marked, host and tenfold residual, 100 samples."""
    figure = Figure(figsize=(5 * len(clips), 8), dpi=120, layout="constrained")
    grid = figure.subplots(3, len(clips), squeeze=False)
    residual_label = f"residual × {RESIDUAL_GAIN}"
    for column, (title, (host, marked)) in enumerate(clips.items()):
        over, beside, detail = grid[:, column]
        residual = RESIDUAL_GAIN * (marked - host)
        _draw_waveform(over, marked, rate, _MARKED, "marked")
        _draw_waveform(over, host, rate, _HOST, "host")
        _draw_waveform(beside, host, rate, _HOST, "host")
        _draw_waveform(beside, residual, rate, _RESIDUAL, residual_label)
        for axes in (over, beside):
            axes.set(xlabel="time in s", ylabel="amplitude", xlim=(0, len(host) / rate))
        first = max(0, min(int(np.abs(host).argmax()) - DETAIL_SAMPLES // 2, len(host) - DETAIL_SAMPLES))
        places = np.arange(first, min(first + DETAIL_SAMPLES, len(host)))
        for signal, colour, width in ((host, _HOST, 3.0), (marked, _MARKED, 1.0), (residual, _RESIDUAL, 1.0)):
            detail.plot(places, signal[places], color=colour, lw=width)
        detail.set(xlabel="sample", ylabel="amplitude")
        over.set_title(title, parse_math=False)
    for axes in grid[:2, -1]:
        axes.legend(loc="upper right", ncols=2)
    return _render(figure, suffix)


def spectrograms(clips: Clips, rate: int, suffix: str = ".png") -> bytes:
    """Spectrograms of `(n,)` clips side by side: host, marked, and what differs."""
    figure = Figure(figsize=(5 * len(clips), 8), dpi=120, layout="constrained")
    grid = figure.subplots(3, len(clips), squeeze=False)
    for column, (title, (host, marked)) in enumerate(clips.items()):
        spectra = [_spectrogram(signal) for signal in (host, marked, marked - host)]
        top = float(spectra[0].max())
        for axes, what, spectrum in zip(grid[:, column], ("host", "marked", "residual"), spectra, strict=True):
            picture = _draw_spectrogram(axes, spectrum, top, len(host) / rate, rate)
            axes.set_title(f"{title}\n{what}" if axes is grid[0, column] else what, parse_math=False)
        figure.colorbar(picture, ax=grid[:, column].tolist(), label="level in dB")
    return _render(figure, suffix)


def detection(samples: NDArray[np.floating], rate: int, result: Detection, name: str, suffix: str = ".png") -> bytes:
    """A picture of `(n, channels)` samples, where marks were found in them, and how strong the evidence is there."""
    signal = mix(samples)
    figure = Figure(figsize=(10, 5), dpi=120, layout="constrained")
    waves, scores = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _draw_waveform(waves, signal, rate, _HOST)
    labels = {True: "marked, message read", False: "marked, message not readable here alone"}
    for readable, colour in ((True, _MARKED), (False, _UNREAD)):
        spans = [segment for segment in result.segments if segment.message_ok == readable]
        for number, segment in enumerate(spans):
            waves.axvspan(
                segment.start, segment.end, color=colour, alpha=0.25, lw=0, label="" if number else labels[readable]
            )
        scores.bar(
            [segment.start for segment in spans],
            [segment.score for segment in spans],
            [segment.end - segment.start for segment in spans],
            align="edge",
            color=colour,
            edgecolor="white",
        )
    scores.axhline(TRACK_SCORE_OFFSET, color=_INK, lw=0.8, ls="--", label="a second makes a track stronger")
    scores.legend(loc="upper right")
    if result.segments:
        waves.legend(loc="upper right")
    waves.set_title(f"{name}: {result}", parse_math=False)
    waves.set(ylabel="amplitude", xlim=(0, len(signal) / rate))
    scores.set(xlabel="time in s", ylabel="evidence (std. dev.)")
    return _render(figure, suffix)


def _draw_waveform(
    axes: Axes,
    signal: NDArray[np.floating],
    rate: int,
    colour: str,
    label: str = "",
    columns: int = PLOT_COLUMNS,
) -> None:
    """Draw `(n,)` over seconds."""
    if len(signal) <= columns:
        axes.plot(np.arange(len(signal)) / rate, signal, color=colour, lw=0.8, label=label)
        return
    starts = np.linspace(0, len(signal), columns, endpoint=False).astype(np.int64)
    lowest, highest = (bound.reduceat(signal, starts) for bound in (np.minimum, np.maximum))
    axes.fill_between(starts / rate, lowest, highest, color=colour, lw=0.4, label=label)


def _draw_with_residual(
    axes: Axes,
    host: NDArray[np.floating],
    residual: NDArray[np.floating],
    rate: int,
    name: str,
    columns: int = PLOT_COLUMNS,
) -> None:
    """Draw `(n,)` and its amplified residual over seconds; `name` is what the first is called."""
    _draw_waveform(axes, host, rate, _HOST, name, columns)
    _draw_waveform(axes, RESIDUAL_GAIN * residual, rate, _RESIDUAL, f"difference × {RESIDUAL_GAIN}", columns)
    axes.set(title="Waveform", xlabel="time in s", ylabel="amplitude", xlim=(0, len(host) / rate))
    axes.margins(y=0.2)  # the legend stands above the waveform
    axes.legend(loc="upper right", ncols=2)


def _draw_noise_to_mask(axes: Axes, masking: Masking, seconds: float, legend_columns: int = 4) -> None:
    """Draw noise to mask over time: the mean over bands, the worst band, and the most audible moment."""
    ratios, peaks = masking.frame_ratios, masking.excess.max(1)
    times = masking.seconds
    starts = np.unique(np.linspace(0, len(ratios), min(len(ratios), PLOT_COLUMNS), endpoint=False).astype(np.int64))
    for values, colour, label in ((peaks, _UNREAD, "worst band"), (ratios, _RESIDUAL, "mean over bands")):
        axes.plot(times[starts], np.maximum.reduceat(values, starts), color=colour, lw=0.8, label=label)
    axes.axhline(0, color=_INK, lw=0.8, ls="--", label="masking curve")
    moment = masking.most_audible
    axes.plot(times[moment], ratios[moment], "v", color=_INK, label=f"most audible, at {times[moment]:.2f} s")
    top = max(10.0, float(peaks.max()) + 3)
    axes.set(xlim=(0, seconds), ylim=(top - NOISE_TO_MASK_RANGE_DB, top))
    axes.set(title="Noise to mask", xlabel="time in s", ylabel="difference over curve in dB")
    axes.legend(loc="lower right", ncols=legend_columns, fontsize=8)
    axes.grid(alpha=0.3)


def _draw_most_audible(axes: Axes, masking: Masking, name: str = "original") -> None:
    """Draw the frame of the most noise to mask over frequency; `name` is what the first recording is called."""
    frame = masking.most_audible
    for what, level, colour in (
        (name, masking.host, _HOST),
        ("masking curve", masking.curve, _INK),
        ("difference", masking.noise, _RESIDUAL),
    ):
        axes.semilogx(masking.hertz, level[frame], color=colour, label=what)
    axes.set(
        title=f"Most audible moment, at {masking.seconds[frame]:.2f} s",
        xlabel="frequency in Hz",
        ylabel="dB SPL in a half Bark",
    )
    axes.set(xlim=(100, masking.hertz[-1]), ylim=(-10, None))
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)


def _spectrogram(signal: NDArray[np.floating]) -> NDArray[np.float32]:
    """`(n,)` → (frequencies, times) in dB; of long audio, windows here and there."""
    padded = np.pad(signal, SPECTROGRAM_WINDOW_SAMPLES // 2)
    hop = max(SPECTROGRAM_WINDOW_SAMPLES // 4, len(signal) // PLOT_COLUMNS)
    frames = np.lib.stride_tricks.sliding_window_view(padded, SPECTROGRAM_WINDOW_SAMPLES)[::hop] * np.hanning(
        SPECTROGRAM_WINDOW_SAMPLES
    )
    power = np.square(np.abs(np.fft.rfft(frames))).T / SPECTROGRAM_WINDOW_SAMPLES
    return (10 * np.log10(power + 1e-12)).astype(np.float32)


def _draw_spectrogram(axes: Axes, spectrum: NDArray[np.float32], top: float, seconds: float, rate: int) -> AxesImage:
    """Draw (frequencies, times) in dB, down from the level `top`."""
    axes.set(xlabel="time in s", ylabel="frequency in kHz")
    return axes.imshow(
        spectrum,
        origin="lower",
        aspect="auto",
        extent=(0, seconds, 0, rate / 2000),
        vmin=top - SPECTROGRAM_RANGE_DB,
        vmax=top,
        cmap="magma",
    )


def _adaptive(figure: Figure, name: str) -> bytes:
    """An SVG file without a background, with text and black lines in a colour that suits the page."""
    for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
        patch.set_alpha(0)
    for axes in figure.axes:
        for spine in axes.spines.values():
            spine.set_color(_HOST)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        drawn = _render(figure, ".svg", Date=None).replace(_INK.encode(), b"currentColor")
    start = drawn.index(b">", drawn.index(b"<svg")) + 1
    return drawn[:start] + _SCHEMES + drawn[start:]


def _render(figure: Figure, suffix: str, **metadata: str | None) -> bytes:
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # letters that the font lacks, in names and messages
        figure.savefig(picture, format=suffix.lower().lstrip("."), metadata=metadata or None)
    return picture.getvalue()
