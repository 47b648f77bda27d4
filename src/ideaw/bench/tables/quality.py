"""How far marked files are from their hosts, by the measures that listeners' scores were modelled with.

What MP3 makes of the same files stands beside it, so that one knows what a number means.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ideaw.attacks import catalogue
from ideaw.audio import files
from ideaw.audio.buffer import Progress
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.resample import mix, to_network
from ideaw.audio.samples import as_float
from ideaw.bench.corpus import kind, paths_under
from ideaw.marker import load
from ideaw.quality import fidelity
from ideaw.quality.masking import masking

MESSAGE = (1, 0, 1)
"""What is embedded; it fits into every model."""

MEASURES = {"SNR": fidelity.snr, "PESQ": fidelity.pesq, "STOI": fidelity.stoi, "ViSQOL": fidelity.visqol}


@dataclass(frozen=True)
class Table:
    """What `ideaw bench quality` measured: kind of file → measure → mean over the files (of SNRs: the lowest)."""

    model: str
    snr: float
    by_kind: dict[str, dict[str, float]]
    mp3: dict[str, dict[str, float]]
    """The same of files that MP3 changed instead of a mark, at the paper's 64 kbit/s."""


def run(
    data: Path,
    model: str | None = None,
    snr: float | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Table:
    """Mark every file under `data` (at most `limit`, evenly chosen), mixed to 16 kHz, and compare."""
    marker = load(model)
    chosen = paths_under(data, limit)
    marks: dict[str, list[dict[str, float]]] = {}
    coded: dict[str, list[dict[str, float]]] = {}
    for number, path in enumerate(chosen):
        recording = files.read(path)
        host = to_network(mix(as_float(recording.samples))[:, None], recording.rate)[0]
        marks.setdefault(kind(path), []).append(_measured(host, marker.embed(host, SAMPLE_RATE, MESSAGE, snr=snr)))
        coded.setdefault(kind(path), []).append(_measured(host, catalogue.run("mp3", host, SAMPLE_RATE)))
        if progress:
            progress((number + 1) / len(chosen))
    by_kind, mp3 = ({of: _summary(values) for of, values in sorted(all_.items())} for all_ in (marks, coded))
    return Table(marker.card.name, marker.card.snr if snr is None else snr, by_kind, mp3)


def _measured(host: NDArray[np.float32], changed: NDArray[np.float32]) -> dict[str, float]:
    values = {name: measure(host, changed) for name, measure in MEASURES.items()}
    against = masking(host, changed)
    values |= {"noise to mask": against.ratio, "masked": 100 * against.masked}
    return values | {"lowest SNR": fidelity.lowest_snr(host, changed, SAMPLE_RATE)}


def _summary(values: list[dict[str, float]]) -> dict[str, float]:
    """Means over the files; PESQ only over those in which it hears speech."""
    names = [name for name in values[0] if name != "lowest SNR"]
    means = {name: float(np.nanmean([value[name] for value in values])) for name in names}
    least = {"lowest PESQ": "PESQ", "lowest SNR": "lowest SNR"}
    lowest = {name: float(np.nanmin([value[of] for value in values])) for name, of in least.items()}
    return {"files": float(len(values))} | means | lowest
