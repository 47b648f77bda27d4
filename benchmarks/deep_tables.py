"""Tables and figures of the deep layer's pages, from what `benchmarks/deep_layer.py` measured.

    python benchmarks/deep_tables.py

Reads docs/results/deep; draws docs/assets/deep-*.png. The tables are written by `publish.py`.
"""

import json
from collections.abc import Callable, Iterable
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import make_results
import numpy as np
import result_tables as tables
import soundfile
from intervals import interval_note
from result_tables import Result

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.bench.statistics import estimate_mean, wilson_interval
from ideaw.deep.bands import CELLS_PER_SECOND, analyse, measuring_bands, powers
from ideaw.deep.gains import tile_course, tile_gains
from ideaw.deep.signs import TILE_CELLS, KeyPattern
from ideaw.deep.words import Word
from ideaw.keys import PUBLIC
from ideaw.payload.message import Message

ASSETS = tables.ROOT / "docs/assets"

KINDS = ("speech", "music")

THREE_CUTS = "Three cuts of a piece hang together: of cuts intervals are wider."


def _load(name: str) -> Result | None:
    path = tables.ROOT / "docs/results/deep" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _noted(name: str, lines: list[str], text: str, *more: str) -> list[str]:
    """A table with the line that says how it was measured."""
    by_name = {figure.name: figure for figure in make_results.FIGURES}
    made = make_results.read_stamps()
    commands = ", ".join(f"`{make_results.command_of(by_name[f'deep/{each}.json'], made)}`" for each in (name, *more))
    return [*lines, "", f"{commands}: {text}"]


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    heads = list(heads)
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " ---: |" * (len(heads) - 1)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def _count(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:.0f}"


def _attack(row: dict[str, Any]) -> str:
    cut = f", cut to {row['seconds']} s" if row.get("seconds") else ""
    return str(row["attack"]) + cut


def _rates_of(result: Result, network: bool = True) -> list[str]:
    heads = ["after", "trials", "present", "message exact", "wrong", "exact where it is given", "median log10 p"]
    measures = ["trials", "present", "exact", "wrong", "given"]
    rows = [
        [_attack(row), *(_count(row, name) for name in measures), f"{row['median_log10_p']:.1f}"]
        + ([_count(row, "network")] if network else [])
        for row in result["rows"]
    ]
    return _table(heads + (["the network's mark"] if network else []), rows)


def counted(name: str, network: bool = True) -> list[str] | None:
    """What was found of pieces of 10 to 16 s after each attack, and of cuts of them."""
    result = _load(name)
    if result is None:
        return None
    trials = [round(row["trials"]) for row in result["rows"]]
    cuts = [THREE_CUTS] if any(row.get("seconds") for row in result["rows"]) else []
    text = " ".join([f"{sum(trials)} trials in {len(trials)} rows.", interval_note(trials), *cuts])
    text += "".join(f" Not measured: {row} ({why})." for row, why in result.get("skipped", {}).items())
    return _noted(name, _rates_of(result, network), text)


def quality() -> list[str] | None:
    """What measures of quality say."""
    results = {kind: result for kind in KINDS if (result := _load(f"quality-{kind}")) is not None}
    if len(results) < len(KINDS):
        return None
    heads = ["audio", "layers", "pieces", "PESQ", "lowest", "ViSQOL", "lowest", "modulation, 99th percentile", "worst"]
    rows = []
    for kind, result in results.items():
        for row in result["rows"]:
            scores = []
            for name in ("pesq", "visqol"):
                scores += [_mean(row[f"{name}_values"]), f"{row[f'{name}_lowest']:.2f}"]
            heard = [f"{row[name]:+.1f} dB" for name in ("modulation_percentile_99", "modulation_worst")]
            rows.append([kind, row["layers"].replace(",", " and "), row["trials"], *scores, *heard])
    text = (
        "as many clips as the table says; ± is the 95 % interval of a mean over clips; PESQ of those in which it hears "
        "speech; ViSQOL on the first 8 s; 0 dB of modulation is just heard."
    )
    return _noted("quality-speech", _table(heads, rows), text, "quality-music")


def _mean(values: list[float]) -> str:
    """A mean with its 95 % interval, of what could be measured."""
    estimate = estimate_mean([value for value in values if np.isfinite(value)])
    return f"{estimate.value:.2f} ± {estimate.high - estimate.value:.2f}"


def alarms() -> list[str] | None:
    """How small p-values get where nothing is."""
    result = _load("alarms")
    if result is None:
        return None
    heads = ["audio", "speeds", "searches", "least p", "share below 0.1", "below 0.01", "below 0.001"]
    rows = [
        [row["audio"], row["speeds"], row["trials"], f"{row['least_p']:.2g}"]
        + [f"{row[f'share_below_{level}']:.4f}" for level in ("0.1", "0.01", "0.001")]
        for row in result["rows"]
    ]
    trials = [row["trials"] for row in result["rows"]]
    text = f"{sum(trials)} searches in {len(trials)} rows, of {result['pieces']} pieces, which hang together. "
    text += interval_note(trials)
    return _noted("alarms", _table(heads, rows), text)


def costs() -> list[str] | None:
    """CPU time a second of audio."""
    result = _load("costs")
    if result is None:
        return None
    rows = [[row["job"], row["audio"], f"{row['seconds']:.0f} s", f"{row['ms']:.1f} ms"] for row in result["rows"]]
    lines = _table(["job", "audio", "length", "CPU for a second of it"], rows)
    return _noted("costs", lines, "CPU time of one process at 16 kHz, one channel; the least of 3 runs after a first.")


FRAGMENTS: dict[str, Callable[[], list[str] | None]] = {
    "deep-speech": partial(counted, "rates-speech"),
    "deep-music": partial(counted, "rates-music"),
    "deep-edits": partial(counted, "edits", network=False),
    "deep-quality": quality,
    "deep-alarms": alarms,
    "deep-security": partial(counted, "security", network=False),
    "deep-streams": partial(counted, "streams", network=False),
    "deep-messages": partial(counted, "messages"),
    "deep-stereo": partial(counted, "stereo"),
    "deep-costs": costs,
}
"""Name of a table → what makes it."""


def draw_tiles(path: Path) -> None:
    """Six seconds of speech: how loud its bands are, and the gains that hearing allows there."""
    from matplotlib import pyplot

    with resources.files("ideaw").joinpath("samples", "speech.flac").open("rb") as file:
        speech = soundfile.read(file, dtype="float32")[0]
    spectra = analyse(speech[: 5 * SAMPLE_RATE + 320])
    cells = len(spectra) // TILE_CELLS * TILE_CELLS
    power = powers(spectra[:cells])
    pattern = KeyPattern(PUBLIC)
    signs = pattern.modulate(Word.of(Message("ab"), PUBLIC).symbols(pattern))
    gains = tile_course(tile_gains(power[None], np.resize(signs, (cells // TILE_CELLS, signs.shape[1]))))
    loudness = 10 * np.log10(power @ measuring_bands() + 1e-6)
    figure, (above, below) = pyplot.subplots(2, 1, figsize=(8, 5), sharex=True, layout="constrained")
    extent = (0, cells / CELLS_PER_SECOND, 0, loudness.shape[1])
    loud = loudness.max()
    shown = above.imshow(
        loudness.T, origin="lower", aspect="auto", extent=extent, vmin=loud - 60, vmax=loud, cmap="magma"
    )
    figure.colorbar(shown, ax=above, label="dB")
    above.set(ylabel="mel band", title="How loud the bands of speech are")
    shown = below.imshow(gains.T, origin="lower", aspect="auto", extent=extent, vmin=-3.5, vmax=3.5, cmap="coolwarm")
    figure.colorbar(shown, ax=below, label="dB")
    below.set(ylabel="mel band", xlabel="seconds", title="Gains of the mark: deep where it is loud and changing")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def draw_frontier(path: Path = ASSETS / "deep-frontier.png") -> None:
    """Rate and quality against the largest gain, if they were measured; bars are Wilson's 95 % intervals."""
    result = _load("frontier")
    if result is None:
        return
    from matplotlib import pyplot

    rows = result["rows"]
    gains = [row["max_gain_db"] for row in rows]
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name, label in (("present", "present, any message"), ("given", "a given message")):
        shares = np.array([100 * row[name] / row["trials"] for row in rows])
        low, high = (100 * np.array([wilson_interval(row[name], row["trials"]) for row in rows])).T
        bars = [shares - low, high - shares]
        axes.errorbar(gains, shares, np.maximum(bars, 0), fmt="o-", capsize=3, label=label)
    found = f"found after codecs and noise, % of {rows[0]['trials']}"
    axes.set(xlabel="largest gain of a tile, dB", ylabel=found, ylim=(0, 103))
    other = axes.twinx()
    other.plot(gains, [row["visqol_mean"] for row in rows], "s--", color="tab:red", label="ViSQOL, mean")
    other.set_ylabel("ViSQOL")
    (lines, labels), (more_lines, more_labels) = (each.get_legend_handles_labels() for each in (axes, other))
    axes.legend([*lines, *more_lines], [*labels, *more_labels], loc="center right")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    """Draw the pictures."""
    draw_tiles(ASSETS / "deep-tiles.png")
    draw_frontier()


if __name__ == "__main__":
    main()
