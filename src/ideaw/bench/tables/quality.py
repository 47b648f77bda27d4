"""How far marked files are from their hosts, by the measures that listeners' scores were modelled with.

What MP3 makes of the same files stands beside it, so that one knows what a number means.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ideaw.attacks import catalogue
from ideaw.audio.blocks import Progress
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.bench.corpus import SHORT_MESSAGE, audio_kind, list_audio_files, read_network_mono
from ideaw.marker import load
from ideaw.quality import fidelity
from ideaw.quality.masking import masking

FIDELITY_MEASURES = {"SNR": fidelity.snr, "PESQ": fidelity.pesq, "STOI": fidelity.stoi, "ViSQOL": fidelity.visqol}


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
    """Mark every file under `data`, mixed to 16 kHz, and compare it with its host.

    Args:
        data: A folder of audio files.
        model: A packaged model or a model folder; None for the default.
        snr: In dB, that every second keeps at least; None for what the model's card says.
        limit: At most so many files, evenly spaced.
        progress: Called with the share that is done.
    """
    marker = load(model)
    chosen = list_audio_files(data, limit)
    marks: dict[str, list[dict[str, float]]] = {}
    coded: dict[str, list[dict[str, float]]] = {}
    for number, path in enumerate(chosen):
        host = read_network_mono(path)
        marks.setdefault(audio_kind(path), []).append(
            _measure(host, marker.embed(host, SAMPLE_RATE, SHORT_MESSAGE, snr=snr))
        )
        coded.setdefault(audio_kind(path), []).append(_measure(host, catalogue.run("mp3", host, SAMPLE_RATE)))
        if progress:
            progress((number + 1) / len(chosen))
    by_kind, mp3 = ({kind: _summarise(values) for kind, values in sorted(kinds.items())} for kinds in (marks, coded))
    return Table(marker.card.name, marker.card.snr if snr is None else snr, by_kind, mp3)


def _measure(host: NDArray[np.float32], changed: NDArray[np.float32]) -> dict[str, float]:
    values = {name: measure(host, changed) for name, measure in FIDELITY_MEASURES.items()}
    audibility = masking(host, changed)
    values |= {"noise to mask": audibility.ratio, "masked": 100 * audibility.masked}
    return values | {"lowest SNR": fidelity.lowest_snr(host, changed, SAMPLE_RATE)}


def _summarise(values: list[dict[str, float]]) -> dict[str, float]:
    """Means over the files; PESQ only over those in which it hears speech."""
    names = [name for name in values[0] if name != "lowest SNR"]
    means = {name: float(np.nanmean([value[name] for value in values])) for name in names}
    least = {"lowest PESQ": "PESQ", "lowest SNR": "lowest SNR"}
    lowest = {name: float(np.nanmin([value[of] for value in values])) for name, of in least.items()}
    return {"files": float(len(values))} | means | lowest
