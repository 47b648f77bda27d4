"""How long it takes to find a mark: our one pass against the paper's window after window, on the same network.

Files are marked from some second to their end, or not at all. All searches run in one process on one thread and
take turns; none of them tries other speeds. The paper's stop where they find the mark, and so does ours, as a stream is
searched; beside it is what it takes to search the whole file and tell every mark. The single stage is a model of that
kind, with the same bits and marks of its own, or else both stages of ours at once.
"""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import median

import numpy as np
import soundfile
from numpy.typing import NDArray

from ideaw.audio.blocks import Progress, split_blocks
from ideaw.audio.grid import SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.bench.corpus import SHORT_MESSAGE
from ideaw.bench.tables import window_search
from ideaw.bench.tables.window_search import Located, encode_checked
from ideaw.engine.network import Network, single_threaded_blas
from ideaw.errors import ModelError
from ideaw.layers import FAST_ALONE
from ideaw.marker import Marker
from ideaw.models import Card, find_model
from ideaw.modem.locating_code import locating_code
from ideaw.payload.message import Message
from ideaw.results import Detection

ONE_PASS, WINDOWS, SINGLE_STAGE, ONE_PASS_WHOLE = METHODS = ("ours", "the paper's", "single stage", "ours, whole file")

LATENCY_SECONDS = 6
"""Latency of the streaming search, from the first marked second to its answer."""

SEARCH_CASES: tuple[tuple[int, int | None], ...] = (
    (10, 0),
    (10, 5),
    (10, None),
    (60, 0),
    (60, 10),
    (60, 30),
    (60, 50),
    (60, None),
)
"""Seconds of a file, and the second from which on it is marked; None: it is not."""

MARK_OFFSET_SECONDS = 0.037
"""Seconds by which a mark begins later than its case says, so that no window begins just there; not at 0."""

Mark = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""What puts the message into every second of (n,) samples."""


@dataclass(frozen=True)
class Row:
    """One case: by method, the median in seconds, how many times ours theirs is, and whether the answer was right."""

    seconds: float
    begin: float | None
    windows: int
    """That the paper's searches looked at."""
    took: dict[str, float]
    times_ours: dict[str, float]
    right: dict[str, bool]


@dataclass(frozen=True)
class Table:
    """What `ideaw bench locating` measured."""

    model: str
    repeats: int
    step: float
    """Seconds from one window of the paper's search to the next."""
    rows: list[Row]
    single: str | None = None
    """The model of the single stage; None: both stages of ours."""


def run(
    model: str | None = None,
    repeats: int = 3,
    progress: Progress | None = None,
    cases: tuple[tuple[int, int | None], ...] = SEARCH_CASES,
    single: Path | None = None,
) -> Table:
    """Search the packaged speech, again and again as long as a file is, marked from some second on.

    `single` is the folder of a single-stage model that carries locating code and message together.
    """
    network = Network(find_model(model), threads=1)
    marker = Marker(network)
    code = locating_code(network.card.code_bits)

    methods: dict[str, Callable[[NDArray[np.float32]], Detection | Located]] = {
        ONE_PASS: lambda audio: _detect_first(marker, audio),
        WINDOWS: lambda audio: window_search.search(network, audio, code),
        SINGLE_STAGE: lambda audio: window_search.search(network, audio, code, both_stages=True),
        ONE_PASS_WHOLE: lambda audio: marker.detect(audio, SAMPLE_RATE, speeds="none", layers=FAST_ALONE),
    }
    marks: dict[str, Mark] = dict.fromkeys(
        methods, lambda audio: marker.embed(audio, SAMPLE_RATE, SHORT_MESSAGE, layers=FAST_ALONE)
    )
    if single is not None:
        single_network = _load_single_stage(single, network.card)
        bits = np.concatenate([code, encode_checked(Message.of(SHORT_MESSAGE), network.card.message_bits)])
        methods[SINGLE_STAGE] = lambda audio: window_search.search_single_stage(single_network, audio, code)
        marks[SINGLE_STAGE] = lambda audio: _mark_segments(Marker(single_network), audio, bits)
    for name, method in methods.items():
        method(_make_file(marks[name], 2, 0))  # the first call loads the graphs
    rows = []
    for number, (seconds, begin) in enumerate(cases):
        audio = {name: _make_file(mark, seconds, begin) for name, mark in marks.items()}
        took: dict[str, list[float]] = {name: [] for name in methods}
        right = dict.fromkeys(methods, True)
        for _ in range(repeats):
            for name, method in methods.items():
                with single_threaded_blas():
                    began = time.perf_counter()
                    result = method(audio[name])
                    took[name].append(time.perf_counter() - began)
                right[name] &= result.message == (None if begin is None else SHORT_MESSAGE)
                if isinstance(result, Located):
                    windows = result.windows
        ratios = {
            name: median(theirs / ours for theirs, ours in zip(took[name], took[ONE_PASS], strict=True))
            for name in (WINDOWS, SINGLE_STAGE)
        }
        medians = {name: median(times) for name, times in took.items()}
        rows.append(Row(seconds, begin, windows, medians, ratios, right))
        if progress:
            progress((number + 1) / len(cases))
    named = None if single is None else single_network.card.name
    return Table(network.card.name, repeats, window_search.WINDOW_STEP_SAMPLES / SAMPLE_RATE, rows, named)


def draw(table: Table, suffix: str = ".png") -> bytes:
    """A picture of the time each search takes over the place of the mark, in the longest files."""
    from matplotlib.figure import Figure

    longest = max(row.seconds for row in table.rows)
    rows = [row for row in table.rows if row.seconds == longest and row.begin is not None]
    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for name in METHODS:
        axes.semilogy([row.begin for row in rows], [row.took[name] for row in rows], marker="o", label=name)
    axes.set(
        title=f"Finding a mark in {longest:g} seconds", xlabel="mark begins at, in s", ylabel="time in s, one thread"
    )
    axes.grid(alpha=0.3)
    axes.legend()
    picture = io.BytesIO()
    figure.savefig(picture, format=suffix.lstrip("."))
    return picture.getvalue()


def _detect_first(marker: Marker, audio: NDArray[np.float32]) -> Detection:
    """The first answer that tells of a mark, or the last one."""
    detections = marker.detect_stream(split_blocks(audio, SAMPLE_RATE), SAMPLE_RATE, latency=LATENCY_SECONDS)
    for detection in detections:
        if detection.found:
            break
    return detection


def _load_single_stage(folder: Path, ours: Card) -> Network:
    """The network of a folder, which must be of one stage that carries as many bits as ours."""
    network = Network(find_model(folder), threads=1)
    bits = ours.message_bits + ours.code_bits
    if network.card.code_bits or network.card.message_bits != bits:
        raise ModelError(f"{folder} is not a single-stage model of {bits} bits, which {ours.name} has in two stages")
    return network


def _mark_segments(marker: Marker, audio: NDArray[np.float32], bits: NDArray[np.integer]) -> NDArray[np.float32]:
    """(n,) with the bits in each of its whole seconds."""
    seconds = audio[: len(audio) // SEGMENT_SAMPLES * SEGMENT_SAMPLES].reshape(-1, SEGMENT_SAMPLES)
    marked = marker.embed_segment(seconds, np.tile(bits, (len(seconds), 1)), np.empty((len(seconds), 0), int))
    return np.concatenate([marked.ravel(), audio[seconds.size :]])


def _make_file(mark: Mark, seconds: int, begin: int | None) -> NDArray[np.float32]:
    """(n,) at 16 kHz."""
    sample = resources.files("ideaw").joinpath("samples", "speech.flac").read_bytes()
    audio = np.resize(soundfile.read(io.BytesIO(sample), dtype="float32")[0], seconds * SAMPLE_RATE)
    if begin is not None:
        first = round((begin + MARK_OFFSET_SECONDS) * SAMPLE_RATE) if begin else 0
        audio[first:] = mark(audio[first:])
    return audio
