"""How far marked files are from their hosts, by the measures that listeners' scores were modelled with."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ideaw.audio import files
from ideaw.audio.blocks import Progress
from ideaw.audio.grid import RATE
from ideaw.audio.rates import mix, to_network
from ideaw.audio.samples import as_float
from ideaw.bench.folder import kind, paths_under
from ideaw.marker import load
from ideaw.quality import fidelity

MESSAGE = (1, 0, 1)
"""What is embedded; it fits into every model."""

MEASURES = {"SNR": fidelity.snr, "PESQ": fidelity.pesq, "STOI": fidelity.stoi, "ViSQOL": fidelity.visqol}


@dataclass(frozen=True)
class Table:
    """What `ideaw bench quality` measured: kind of file → measure → mean over the files (of SNRs: the lowest)."""

    model: str
    snr: float
    by_kind: dict[str, dict[str, float]]


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
    measured: dict[str, list[dict[str, float]]] = {}
    for number, path in enumerate(chosen):
        recording = files.read(path)
        host = to_network(mix(as_float(recording.samples))[:, None], recording.rate)[0]
        marked = marker.embed(host, RATE, MESSAGE, snr=snr)
        values = {name: measure(host, marked) for name, measure in MEASURES.items()}
        measured.setdefault(kind(path), []).append(values | {"lowest SNR": fidelity.lowest_snr(host, marked, RATE)})
        if progress:
            progress((number + 1) / len(chosen))
    by_kind = {of: _summary(values) for of, values in sorted(measured.items())}
    return Table(marker.card.name, marker.card.snr if snr is None else snr, by_kind)


def _summary(values: list[dict[str, float]]) -> dict[str, float]:
    """Means over the files; PESQ only over those in which it hears speech."""
    means = {name: float(np.nanmean([value[name] for value in values] or [0.0])) for name in MEASURES}
    least = {"lowest PESQ": "PESQ", "lowest SNR": "lowest SNR"}
    lowest = {name: float(np.nanmin([value[of] for value in values])) for name, of in least.items()}
    return {"files": float(len(values))} | means | lowest
