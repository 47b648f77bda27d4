"""The shipped network on ONNX Runtime, and the threads that run it.

A session is made when it is first needed: a detector that locates no code never reads a message, and ONNX Runtime
itself is imported only then. Threads that share one part of the audio would wait for each other at every layer, so each
works on a part of its own; BLAS is kept from starting more, since its threads spin while they wait.
"""

import copy
import hashlib
import io
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, cached_property
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import EDGE_SAMPLES, FRAMES_PER_SECOND, SEGMENT_SAMPLES
from ideaw.audio.spectrum import istft, stft
from ideaw.engine.response import RESPONSE_FRAMES
from ideaw.errors import IdeawError, ModelError
from ideaw.models import GRAPHS, RESPONSE_FILE, ModelFiles
from ideaw.modem.carriers import TILE_BINS
from ideaw.modem.channel import KeyChannels, key_channels

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

MAX_WORKERS = 4
"""Parts that are worked on at the same time: this bounds memory. Threads beyond that share the work of one part."""

MIN_JOB_HOPS = FRAMES_PER_SECOND
"""Hops of a part at least: every part is computed together with its receptive field."""

StageState = tuple[NDArray[np.float32], ...]
"""What `locate` leaves for `read`, (batch, channels, frames, bands) each, in the order of STATE_NAMES."""

STATE_NAMES = ("host", "side", "found")
"""The last outputs of the graph `locate`, which are the inputs of `read`."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Network:
    """One model's graphs, ready to run; made from its files.

    Args:
        files: card and graphs, from `ideaw.models`.
        threads: how many threads may run it (None: all cores that the process may use).

    Raises:
        IdeawError: `threads` is not a whole number of 1 or more.
    """

    def __init__(self, files: ModelFiles, threads: int | None = None) -> None:
        if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
            raise IdeawError(f"threads={threads!r} cannot be used; give 1 or more, or None for all cores")
        self.files, self.card = files, files.card
        self.threads = threads
        """The argument as it was given."""
        self._cores = threads or available_cores()
        self.workers = min(self._cores, MAX_WORKERS)
        """How many parts `map` works on at the same time."""
        self._sessions: dict[str, InferenceSession] = {}
        self._loading = Lock()
        _networks.add(self)

    @property
    def weights_id(self) -> str:
        """Which weights these are: the first sixteen digits of the SHA-256 over all graphs."""
        graphs = (self.files.read(f"{name}.onnx") for name in self.graph_names)
        return hashlib.sha256(b"".join(graphs)).hexdigest()[:16]

    @property
    def graph_names(self) -> tuple[str, ...]:
        """The names of its graphs."""
        return GRAPHS

    @cached_property
    def response(self) -> NDArray[np.float32] | None:
        """What the locating code does to log-magnitudes (`response.py`); None of a model that was exported without it.

        Raises:
            ModelError: the file is damaged.
        """
        if not self.files.has(RESPONSE_FILE):
            return None
        try:
            response = np.load(io.BytesIO(self.files.read(RESPONSE_FILE)), allow_pickle=False).astype(np.float32)
            frames, tiles, bins = response.shape
        except (ValueError, EOFError) as problem:
            raise ModelError(f"{RESPONSE_FILE} of {self.files.graphs} is damaged") from problem
        if frames != 2 * RESPONSE_FRAMES + 1 or bins != tiles * TILE_BINS or self.card.bins % bins:
            raise ModelError(f"{RESPONSE_FILE} of {self.files.graphs} does not fit the card of {self.card.name}")
        return np.asarray(response)

    @property
    def has_locating_code(self) -> bool:
        """Whether its marks can be searched for; else they are read only at known places."""
        return self.card.code_bits > 0

    def require_locating_code(self) -> None:
        """Raise `ModelError` unless its marks can be searched for."""
        if not self.has_locating_code:
            raise ModelError(
                f"the model {self.card.name} has no locating code: its marks can only be read at known places"
            )

    def single_worker(self) -> "Network":
        """The same network, whose `map` does one after the other: for callers that have threads of their own."""
        other = copy.copy(self)
        other.workers = 1
        return other

    def channels(self, key: bytes) -> KeyChannels:
        """Where message and locating code lie under a key."""
        card = self.card
        message, code = (card.message_bits, card.message_slots), (card.code_bits, card.code_slots)
        return key_channels(key, message, code, card.bins, card.scrambled_by_code)

    # On complex spectra (batch, frames, NUM_BINS) and watermark streams (batch, frames, bins), any number of frames.

    def mark(
        self, host: NDArray[np.complex64], message: NDArray[np.float32], code: NDArray[np.float32]
    ) -> NDArray[np.complex64]:
        """Spectrum of the host, streams of message and locating code → spectrum of the residual that marks it."""
        (residual,) = self.session("mark").run(None, {"host": _as_pairs(host), "message": message, "code": code})
        return np.ascontiguousarray(residual).view(np.complex64)[..., 0]

    def locate(self, received: NDArray[np.complex64]) -> tuple[NDArray[np.float32], StageState]:
        """Spectrum of received audio → the locating code's stream, and what `read` goes on with."""
        code, *state = self.session("locate").run(None, {"received": _as_pairs(received)})
        return code, tuple(state)

    def read(self, state: StageState) -> NDArray[np.float32]:
        """What `locate` has left → the message's stream."""
        (message,) = self.session("read").run(None, dict(zip(STATE_NAMES, state, strict=True)))
        return np.asarray(message)

    # On segments (batch, SEGMENT_SAMPLES) at level 1: the paper's own unit.

    def mark_segments(
        self, host: NDArray[np.float32], message: NDArray[np.float32], code: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Segments and streams of message and locating code → residuals of the same shape."""
        residual = istft(self.mark(stft(host), message, code))
        return np.asarray(residual[:, EDGE_SAMPLES : EDGE_SAMPLES + SEGMENT_SAMPLES])

    def extract_streams(self, received: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Segments → the streams of message and locating code."""
        code, state = self.locate(stft(received))
        return self.read(state), code

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """What `work` makes of each item, in their order, on up to `workers` threads."""
        if self.workers == 1 or len(items) <= 1:
            return list(map(work, items))
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(work, items))

    def session(self, name: str) -> "InferenceSession":
        """The ONNX Runtime session of a graph, made at its first use.

        Raises:
            ModelError: the graph cannot be loaded or does not fit the card.
        """
        with self._loading:
            if name not in self._sessions:
                self._sessions[name] = self._load(name)
            return self._sessions[name]

    def forget_sessions(self) -> None:
        """Make sessions anew at their next use: a forked child has none of the threads that they wait for."""
        self._sessions, self._loading = {}, Lock()

    def _load(self, name: str) -> "InferenceSession":
        # From 1.29 on it would otherwise keep an identifier of this machine and report to its maker.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        options.enable_mem_pattern = False  # one for every length of a part would be half of all memory
        options.intra_op_num_threads = self._cores // self.workers
        graph = self.files.read(f"{name}.onnx")
        try:
            session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except Exception as problem:  # ONNX Runtime has no base class of its own for a graph that it cannot load
            raise ModelError(f"{name}.onnx of {self.files.graphs} is damaged or of another version") from problem
        state = {"locate": session.get_outputs()[1:], "read": session.get_inputs()}.get(name)
        if state is not None and tuple(end.name for end in state) != STATE_NAMES:
            raise ModelError(f"{name}.onnx of {self.files.graphs} is of another version: export the model again")
        ends = (*session.get_inputs(), *session.get_outputs())
        if {end.shape[-1] for end in ends if end.name in ("message", "code")} != {self.card.bins}:
            raise ModelError(f"{name}.onnx of {self.files.graphs} does not fit the card of {self.card.name}")
        return session


def split_hops(first: int, last: int, longest: int, workers: int = 1) -> list[tuple[int, int]]:
    """The hops from `first` to before `last` in like parts of at most `longest`, as many for each of the workers."""
    hops = last - first
    rounds = -(-hops // (longest * workers))
    count = max(min(rounds * workers, hops // MIN_JOB_HOPS), 1) if hops else 0
    return list(pairwise(np.linspace(first, last, count + 1).round().astype(int).tolist()))


def available_cores() -> int:
    """Cores that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """One thread of numpy's BLAS, in the whole process, and then as many as before.

    Of several callers at once the first sets and restores the limit. When it leaves, the others go on with more
    threads: slower, but never left with a limit that nobody takes back.
    """
    if not _blas_limit.acquire(blocking=False):
        yield
        return
    try:
        with _blas_libraries().limit(limits=1):
            yield
    finally:
        _blas_limit.release()


_blas_limit = Lock()
_networks: "weakref.WeakSet[Network]" = weakref.WeakSet()


@cache
def _blas_libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def _start_anew_in_child() -> None:
    """After a fork: locks that a thread of the parent held are never released here, and its thread pools are gone."""
    global _blas_limit
    _blas_limit = Lock()
    for network in list(_networks):
        network.forget_sessions()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew_in_child)


def _as_pairs(spectrum: NDArray[np.complex64]) -> NDArray[np.float32]:
    """(…) complex → (…, 2)."""
    return np.ascontiguousarray(spectrum)[..., None].view(np.float32)
