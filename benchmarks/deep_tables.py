"""Tables and figures of the deep layer's pages, from what `benchmarks/deep_layer.py` measured.

    python benchmarks/deep_tables.py

Reads docs/results/deep, writes docs/results/tables/deep-*.md and docs/assets/deep-*.png.
"""

import json
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.deep.bands import CELLS_PER_SECOND, analyse, measuring_bands, powers
from ideaw.deep.gains import tile_course, tile_gains
from ideaw.deep.signs import TILE_CELLS, KeyPattern
from ideaw.deep.words import Word
from ideaw.keys import PUBLIC
from ideaw.payload.message import Message

DOCS = Path(__file__).parent.parent / "docs"
RESULTS, TABLES, ASSETS = DOCS / "results" / "deep", DOCS / "results" / "tables", DOCS / "assets"


def _load(name: str) -> dict[str, Any]:
    return dict(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    heads = list(heads)
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " ---: |" * (len(heads) - 1)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def _count(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:.0f}"


def _attack(row: dict[str, Any]) -> str:
    cut = f", cut to {row['seconds']} s" if row.get("seconds") else ""
    return str(row["attack"]) + cut


def _rates_of(result: dict[str, Any], network: bool = True) -> list[str]:
    heads = ["after", "trials", "present", "message exact", "wrong", "exact where it is given", "median log10 p"]
    measures = ["trials", "present", "exact", "wrong", "given"]
    rows = [
        [_attack(row), *(_count(row, name) for name in measures), f"{row['median_log10_p']:.1f}"]
        + ([_count(row, "network")] if network else [])
        for row in result["rows"]
    ]
    return _table(heads + (["the network's mark"] if network else []), rows)


def rates(kind: str) -> list[str]:
    """What was found of pieces of 10 to 16 s, in both layers, and of cuts."""
    return _rates_of(_load(f"rates-{kind}"))


def edits() -> list[str]:
    """What was found at other speeds and after splices."""
    return _rates_of(_load("edits"), network=False)


def security() -> list[str]:
    """What removal and copying do."""
    return _rates_of(_load("security"), network=False)


def quality() -> list[str]:
    """What measures of quality say."""
    heads = ["audio", "layers", "pieces", "PESQ", "lowest", "ViSQOL", "lowest", "modulation, 99th percentile", "worst"]
    rows = []
    for kind in ("speech", "music"):
        for row in _load(f"quality-{kind}")["rows"]:
            scores = [f"{row[name]:.2f}" for name in ("pesq_mean", "pesq_lowest", "visqol_mean", "visqol_lowest")]
            heard = [f"{row[name]:+.1f} dB" for name in ("modulation_percentile_99", "modulation_worst")]
            rows.append([kind, row["layers"].replace(",", " and "), row["trials"], *scores, *heard])
    return _table(heads, rows)


def alarms() -> list[str]:
    """How small p-values get where nothing is."""
    heads = ["audio", "speeds", "searches", "least p", "share below 0.1", "below 0.01", "below 0.001"]
    rows = [
        [row["audio"], row["speeds"], row["trials"], f"{row['least_p']:.2g}"]
        + [f"{row[f'share_below_{level}']:.4f}" for level in ("0.1", "0.01", "0.001")]
        for row in _load("alarms")["rows"]
    ]
    return _table(heads, rows)


def streams() -> list[str]:
    """What it costs not to choose where periods begin."""
    return _rates_of(_load("streams"), network=False)


def costs() -> list[str]:
    """CPU time a second of audio."""
    rows = [
        [row["job"], row["audio"], f"{row['seconds']:.0f} s", f"{row['ms']:.1f} ms"] for row in _load("costs")["rows"]
    ]
    return _table(["job", "audio", "length", "CPU for a second of it"], rows)


FRAGMENTS: dict[str, Callable[[], list[str]]] = {
    "deep-speech": lambda: rates("speech"),
    "deep-music": lambda: rates("music"),
    "deep-edits": edits,
    "deep-quality": quality,
    "deep-alarms": alarms,
    "deep-security": security,
    "deep-streams": streams,
    "deep-stereo": lambda: _rates_of(_load("stereo")),
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


def draw_frontier(path: Path) -> None:
    """Rate and quality against the largest gain."""
    from matplotlib import pyplot

    rows = _load("frontier")["rows"]
    gains = [row["max_gain_db"] for row in rows]
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name, label in (("present", "present, any message"), ("given", "a given message")):
        axes.plot(gains, [100 * row[name] / row["trials"] for row in rows], "o-", label=label)
    axes.set(xlabel="largest gain of a tile, dB", ylabel="found after codecs and noise, %", ylim=(0, 103))
    other = axes.twinx()
    other.plot(gains, [row["visqol_mean"] for row in rows], "s--", color="tab:red", label="ViSQOL, mean")
    other.set_ylabel("ViSQOL")
    lines = [*axes.get_lines(), *other.get_lines()]
    axes.legend(lines, [str(line.get_label()) for line in lines], loc="lower left")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    for name, lines in FRAGMENTS.items():
        (TABLES / f"{name}.md").write_text("\n".join(lines()) + "\n", encoding="utf-8")
    draw_tiles(ASSETS / "deep-tiles.png")
    draw_frontier(ASSETS / "deep-frontier.png")


if __name__ == "__main__":
    main()
