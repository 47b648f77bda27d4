"""How much audio a mark needs: pieces of half a second to half a minute, marked alone, edited and searched.

A piece that `embed` refuses, because its mark cannot be read back, counts as neither found nor read.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ideaw.audio.blocks import Progress
from ideaw.bench.corpus import MIN_RMS, SHORT_MESSAGE, Samples, list_audio_files
from ideaw.bench.statistics import wilson_interval
from ideaw.bench.tables.files import CLIP_RATE, EDITS, read_clip
from ideaw.bench.tables.segments import CLEAN
from ideaw.engine.gain import MarkLevel, check_level
from ideaw.errors import AudioError, FileError
from ideaw.marker import Marker, load

PIECE_SECONDS = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0)
"""Lengths of the pieces."""

EVERYDAY_EDITS = {
    CLEAN: "as it is",
    "CP": "MP3 64 kbit/s",
    "AAC 64": "AAC 64 kbit/s",
    "Opus 48": "Opus 48 kbit/s",
    "GN": "noise, 35 dB",
    "LF": "low-pass at 5 kHz",
    "speed 105 %": "5 % faster",
}
"""Edits of `bench files` that are tried → their names here."""

PIECE_TEXT = "ab12"
"""What is marked, where the model can carry it in every second."""


@dataclass(frozen=True)
class Cell:
    """An edit and a length: of how many pieces a mark was found, the message was right, or another was read.

    `refused` are pieces that could not be marked; intervals are of 95 %.
    """

    edit: str
    seconds: float
    pieces: int
    found: int
    right: int
    wrong: int
    refused: int
    found_interval: tuple[float, float]
    right_interval: tuple[float, float]


@dataclass(frozen=True)
class Table:
    """What `ideaw bench lengths` measured; either `snr` or `audibility` is None."""

    model: str
    snr: float | None
    audibility: float | None
    cells: list[Cell]


def run(
    data: Path,
    model: str | None = None,
    snr: float | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    audibility: float | None = None,
    seed: int = 0,
) -> Table:
    """Mark a piece of each length of every file under `data`, edit it, search it.

    Args:
        data: a folder of audio files; short ones are repeated.
        model: a packaged model or a model folder; None for the default.
        snr: in dB, that every second keeps at least, instead of the audibility.
        limit: at most so many files, evenly spaced.
        progress: called with the share that is done.
        audibility: noise to mask in dB that hearing sets the level to; None for what the model's card says.
        seed: of places and edits.

    Raises:
        FileError: no file holds a piece that is loud enough.
    """
    marker, paths = load(model), list_audio_files(data, limit)
    level = check_level(snr, audibility, marker.card.audibility)
    asked = (snr, audibility)
    outcomes: dict[tuple[str, float], list[tuple[bool, bool, bool, bool]]] = {}
    for number, path in enumerate(paths):
        clip = read_clip(path, max(PIECE_SECONDS))
        for seconds in PIECE_SECONDS:
            rng = np.random.default_rng([seed, number, round(10 * seconds)])
            piece = _choose_piece(clip, seconds, rng)
            if piece is not None:
                for edit, outcome in _trials(marker, piece, asked, int(rng.integers(1 << 31))).items():
                    outcomes.setdefault((edit, seconds), []).append(outcome)
        if progress:
            progress((number + 1) / len(paths))
    if not outcomes:
        raise FileError(f"{data} holds no audio file above −40 dBFS")
    cells = [
        _cell(edit, seconds, outcomes[edit, seconds])
        for edit in EVERYDAY_EDITS
        for seconds in PIECE_SECONDS
        if (edit, seconds) in outcomes
    ]
    return Table(marker.card.name, *level, cells)


def draw(table: Table, suffix: str) -> bytes:
    """A picture: the shares of messages read right and of marks found, over the length, a line for each edit."""
    from ideaw.quality import plots

    shares = {
        edit: [
            (cell.seconds, 100 * cell.right / cell.pieces, 100 * cell.found / cell.pieces)
            for cell in table.cells
            if cell.edit == edit
        ]
        for edit in dict.fromkeys(cell.edit for cell in table.cells)
    }
    return plots.lengths(shares, suffix)


def _choose_piece(clip: Samples, seconds: float, rng: np.random.Generator) -> Samples | None:
    """A piece (n, 2) that is loud enough, anywhere in the clip."""
    size, step = round(seconds * CLIP_RATE), CLIP_RATE // 10
    power = np.concatenate([[0.0], np.cumsum(np.square(clip, dtype=np.float64).mean(1))])
    starts = np.arange(0, len(clip) - size + 1, step)
    loud = starts[(power[starts + size] - power[starts]) / size >= MIN_RMS**2]
    if not len(loud):
        return None
    begin = int(rng.choice(loud))
    return clip[begin : begin + size]


def _trials(marker: Marker, piece: Samples, level: MarkLevel, seed: int) -> dict[str, tuple[bool, bool, bool, bool]]:
    """Edit → whether a mark was found, the message right, another one read, or the piece refused."""
    message = PIECE_TEXT if marker.capacity(1.0) >= len(PIECE_TEXT) else SHORT_MESSAGE
    try:
        marked = marker.embed(piece, CLIP_RATE, message, snr=level[0], audibility=level[1])
    except AudioError:
        return dict.fromkeys(EVERYDAY_EDITS, (False, False, False, True))
    outcomes = {}
    for edit in EVERYDAY_EDITS:
        try:
            found = marker.detect(EDITS[edit](marked, seed), CLIP_RATE)
        except AudioError:  # half a second that is played faster is too short to be searched
            outcomes[edit] = False, False, False, False
            continue
        right = found.message == message
        outcomes[edit] = found.status != "none", right, found.message is not None and not right, False
    return outcomes


def _cell(edit: str, seconds: float, outcomes: list[tuple[bool, bool, bool, bool]]) -> Cell:
    found, right, wrong, refused = (sum(kind) for kind in zip(*outcomes, strict=True))
    count = len(outcomes)
    intervals = wilson_interval(found, count), wilson_interval(right, count)
    return Cell(EVERYDAY_EDITS[edit], seconds, count, found, right, wrong, refused, *intervals)
