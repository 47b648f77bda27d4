"""The network on ONNX Runtime: graphs that do what torch does, and threads that leave nothing behind."""

import json
import multiprocessing
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, Thread, current_thread
from typing import Any

import numpy as np
import onnx
import pytest
import soxr
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

import ideaw
from ideaw.audio.grid import FRAMES_PER_SECOND, SAMPLE_RATE
from ideaw.audio.spectrum import level, stft
from ideaw.engine.network import (
    MAX_WORKERS,
    MIN_JOB_HOPS,
    Network,
    available_cores,
    single_threaded_blas,
    split_hops,
)
from ideaw.errors import IdeawError, ModelError
from ideaw.keys import PUBLIC
from ideaw.models import GRAPHS, RESPONSE_FILE, ModelFiles, find_model
from ideaw.modem.channel import BitChannel, KeyChannels
from ideaw.nets.build import AnyNet
from ideaw.train.export import load_weights

BLAS_THREADS = {2}
"""Of every BLAS in this process, while nothing limits them."""


@pytest.fixture(scope="module")
def model(folder: Path) -> AnyNet:
    return load_weights(folder)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """The model in a folder of another name, to be spoilt."""
    return Path(shutil.copytree(folder, tmp_path / "model"))


@pytest.fixture(scope="module")
def host(speech: NDArray[np.float32], strings: NDArray[np.float32]) -> NDArray[np.complex64]:
    """The spectra of two seconds of real audio and a bit, (2, frames, NUM_BINS)."""
    audio = np.stack([speech[40_000:60_000], strings[40_000:60_000]])
    return stft(audio / level(audio))


def _stream(channel: BitChannel, frames: int, seed: int = 0) -> NDArray[np.float32]:
    """A stream (2, frames, bins) of random bits, for up to two seconds."""
    bits = np.random.default_rng(seed).integers(0, 2, (2, len(channel.fec.generator)))
    return np.tile(channel.carriers.stream(channel.fec.symbols(bits)), (1, 2, 1))[:, :frames]


def _streams(channels: KeyChannels, frames: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Of message and code."""
    return _stream(channels.message, frames, seed), _stream(channels.code, frames, seed)


# Graphs


@pytest.mark.slow
def test_each_graph_does_what_torch_does(
    network: Network, channels: KeyChannels, model: Any, host: NDArray[np.complex64]
) -> None:
    message, code = _streams(channels, host.shape[1])
    pairs = torch.view_as_real(torch.from_numpy(host))
    with torch.no_grad():
        residual = torch.view_as_complex(model.mark(pairs, *map(torch.from_numpy, (message, code))).contiguous())
        torch_code, *torch_state = model.locate(pairs)
        torch_message = model.read(*torch_state)
    onnx_code, onnx_state = network.locate(host)
    onnx_message = network.read(onnx_state)
    # Eight bits: each is itself and some noise. The code's stream has most, 0.26 of it: where there is no code, as
    # here, the stream is faint, and rounding is not.
    onnx_outputs = network.mark(host, message, code), onnx_code, *onnx_state, onnx_message
    torch_outputs = residual, torch_code, *torch_state, torch_message
    for output, expected in zip(onnx_outputs, torch_outputs, strict=True):
        assert output.shape == expected.shape
        assert np.linalg.norm(output - expected.numpy()) < 0.35 * np.linalg.norm(expected.numpy())


def test_each_input_of_the_marking_graph_counts(
    network: Network, channels: KeyChannels, host: NDArray[np.complex64]
) -> None:
    inputs: list[NDArray[Any]] = [host, *_streams(channels, host.shape[1])]
    others: list[NDArray[Any]] = [host[::-1], *_streams(channels, host.shape[1], seed=9)]
    residual = network.mark(*inputs)
    assert residual.shape == host.shape
    assert residual.dtype == np.complex64
    assert not residual[..., network.card.bins :].any()
    for changed in range(3):
        mixed = [others[place] if place == changed else inputs[place] for place in range(3)]
        assert np.abs(network.mark(*mixed) - residual).max() > 1e-2 * np.abs(residual).max()


@pytest.mark.parametrize("frames", [2, 3, FRAMES_PER_SECOND, 80])
def test_any_number_of_frames_and_spectra_is_taken(network: Network, host: NDArray[np.complex64], frames: int) -> None:
    part = host[:, :frames]
    code, state = network.locate(part)
    message = network.read(state)
    assert code.shape == message.shape == (2, frames, network.card.bins)
    assert code.dtype == message.dtype == np.float32
    alone, state_alone = network.locate(part[1:])
    assert np.abs(alone[0] - code[1]).max() < 1e-5
    assert np.abs(network.read(state_alone)[0] - message[1]).max() < 1e-4


# Channels and keys


def test_bits_travel_in_as_many_slots_as_the_card_says(network: Network, channels: KeyChannels) -> None:
    for channel, bits, slots in (
        (channels.message, network.card.message_bits, network.card.message_slots),
        (channels.code, network.card.code_bits, network.card.code_slots),
    ):
        assert channel.fec.generator.shape == (bits, slots)
        assert channel.carriers.slots == slots
        symbols = channel.fec.symbols(np.ones((3, bits), np.uint8))
        assert symbols.shape == (3, slots)
        assert set(np.unique(symbols)) <= {-1, 1}
    assert channels.locating_code.shape == (network.card.code_bits,)
    assert channels.code_symbols.shape == (network.card.code_slots,)
    assert channels.message_scrambler.shape == (network.card.message_slots,)


@pytest.mark.slow
def test_another_key_has_other_carriers_and_every_network_draws_the_same(folder: Path, network: Network) -> None:
    public, keyed = network.channels(PUBLIC), network.channels(b"another key")
    again = Network(find_model(folder)).channels(b"another key")
    assert keyed.key == again.key == b"another key"
    assert np.array_equal(keyed.locating_code, again.locating_code)
    for kind in ("message", "code"):
        ours, theirs, same = (_carrier_maps(getattr(channels, kind)) for channels in (public, keyed, again))
        assert not np.array_equal(ours, theirs)
        assert np.array_equal(theirs, same)


def _carrier_maps(channel: BitChannel) -> NDArray[np.float32]:
    """(slots, FRAMES_PER_SECOND, bins)."""
    return channel.carriers.stream(np.eye(channel.carriers.slots, dtype=np.float32))


# Which weights these are


def test_weights_have_an_identity_that_changes_with_any_graph(network: Network, copy: Path) -> None:
    assert Network(find_model(copy)).weights_id == network.weights_id
    assert len(network.weights_id) == 16
    seen = {network.weights_id}
    for name in GRAPHS:
        path = copy / f"{name}.onnx"
        path.write_bytes(path.read_bytes() + b"\0")
        seen.add(Network(find_model(copy)).weights_id)
    assert len(seen) == 1 + len(GRAPHS)


# Damage


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("damage", [lambda graph: b"no graph", lambda graph: graph[: len(graph) // 2]])
def test_a_damaged_graph_is_named_when_it_is_needed(
    copy: Path, channels: KeyChannels, host: NDArray[np.complex64], name: str, damage: Callable[[bytes], bytes]
) -> None:
    state = Network(find_model(copy)).locate(host)[1]
    (copy / f"{name}.onnx").write_bytes(damage((copy / f"{name}.onnx").read_bytes()))
    damaged = Network(find_model(copy))
    work: dict[str, Callable[[], object]] = {
        "mark": lambda: damaged.mark(host, *_streams(channels, host.shape[1])),
        "locate": lambda: damaged.locate(host),
        "read": lambda: damaged.read(state),
    }
    with pytest.raises(ModelError, match=rf"{name}\.onnx"):
        work[name]()


def test_graphs_of_another_model_are_refused(copy: Path, host: NDArray[np.complex64]) -> None:
    state = Network(find_model(copy)).locate(host)[1]
    card = json.loads((copy / "card.json").read_text())
    (copy / "card.json").write_text(json.dumps(card | {"bins": 240}))
    misfit = Network(find_model(copy))
    for work in (lambda: misfit.locate(host), lambda: misfit.read(state)):
        with pytest.raises(ModelError, match="does not fit the card"):
            work()


@pytest.mark.parametrize("content", [b"", b"no array", b"half"])
def test_a_damaged_response_is_named_when_it_is_needed(copy: Path, content: bytes) -> None:
    path = copy / RESPONSE_FILE
    path.write_bytes(path.read_bytes()[:2_000] if content == b"half" else content)
    with pytest.raises(ModelError, match=RESPONSE_FILE):
        _ = Network(find_model(copy)).response


def test_the_response_of_another_model_is_refused(copy: Path) -> None:
    for shape in ((9, 12), (9, 12, 20), (7, 12, 24), (9, 7, 14)):
        np.save(copy / RESPONSE_FILE, np.zeros(shape, np.float16))
        with pytest.raises(ModelError, match=RESPONSE_FILE):
            _ = Network(find_model(copy)).response


def test_a_model_without_a_response_is_searched_at_its_own_speed_only(copy: Path, speech: NDArray[np.float32]) -> None:
    (copy / RESPONSE_FILE).unlink()
    without, marker = ideaw.load(str(copy)), ideaw.load()
    marked = marker.embed(speech, SAMPLE_RATE, "hey")
    faster = soxr.resample(marked, 1.1 * SAMPLE_RATE, SAMPLE_RATE)
    assert [one.detect(faster, SAMPLE_RATE).message for one in (without, marker)] == [None, "hey"]
    assert without.detect(marked, SAMPLE_RATE).message == "hey"


def test_graphs_of_an_earlier_version_are_refused(copy: Path, host: NDArray[np.complex64]) -> None:
    state = Network(find_model(copy)).locate(host)[1]
    for name in ("locate", "read"):
        graph = onnx.load(copy / f"{name}.onnx")
        for node in graph.graph.node:
            for ends in (node.input, node.output):
                ends[:] = ["code_found" if end == "found" else end for end in ends]
        for end in (*graph.graph.input, *graph.graph.output):
            end.name = "code_found" if end.name == "found" else end.name
        onnx.save(graph, copy / f"{name}.onnx")
    earlier = Network(find_model(copy))
    for work in (lambda: earlier.locate(host), lambda: earlier.read(state)):
        with pytest.raises(ModelError, match="export the model again"):
            work()


# Threads


@pytest.mark.parametrize("threads", [0, -1, "2", 1.5, True, False])
def test_a_number_of_threads_that_makes_no_sense_is_refused(network: Network, threads: Any) -> None:
    with pytest.raises(IdeawError, match="threads") as caught:
        Network(network.files, threads)
    assert repr(threads) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_a_number_all_cores_are_used(network: Network) -> None:
    assert Network(network.files).workers == min(available_cores(), MAX_WORKERS)


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_parts_are_worked_on_at_once_and_come_back_in_order(network: Network, threads: int) -> None:
    threaded = Network(network.files, threads)
    assert threaded.workers == min(threads, MAX_WORKERS)
    meeting, names = Barrier(threaded.workers, timeout=60), set()

    def work(item: int) -> int:
        meeting.wait()
        names.add(current_thread().name)
        return item * item

    items = range(2 * threaded.workers)
    assert threaded.map(work, items) == [item * item for item in items]
    assert len(names) == threaded.workers
    assert threaded.map(str, []) == []
    with pytest.raises(ZeroDivisionError):
        threaded.map(lambda item: 1 // item, [2, 1, 0])


def test_a_single_worker_shares_the_sessions_and_starts_no_thread(network: Network) -> None:
    threaded = Network(network.files, 4)
    alone = threaded.single_worker()
    assert (threaded.workers, alone.workers) == (4, 1)
    assert alone.map(lambda _: current_thread().name, range(3)) == [current_thread().name] * 3
    assert alone.session("locate") is threaded.session("locate")


@pytest.mark.parametrize("hops", [0, 1, 127, 128, 200, 255, 256, 640, 641, 1_281, 7_900])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_threads_have_like_parts(workers: int, hops: int) -> None:
    longest = 640
    parts = split_hops(7, 7 + hops, longest, workers)
    assert [hop for part in parts for hop in range(*part)] == list(range(7, 7 + hops))
    lengths = [end - begin for begin, end in parts]
    assert max(lengths, default=0) <= longest
    if hops:
        assert max(lengths) - min(lengths) <= 1
        assert len(parts) == 1 or min(lengths) >= MIN_JOB_HOPS
        # No thread has nothing to do while others work, unless there is too little for all.
        assert len(parts) % workers == 0 or len(parts) == hops // MIN_JOB_HOPS or len(parts) == 1


def test_threads_that_need_a_graph_at_once_load_it_once(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    read = ModelFiles.read
    monkeypatch.setattr(ModelFiles, "read", lambda files, name: loaded.append(name) or read(files, name))
    threaded = Network(network.files, 4)
    sessions = threaded.map(threaded.session, ["read"] * 4)
    assert loaded == ["read.onnx"]
    assert len(set(map(id, sessions))) == 1


# BLAS has one thread while we work, and as many as before afterwards


def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


def _blas_threads() -> set[int]:
    """Of every BLAS in this process."""
    return {library["num_threads"] for library in _blas().info()}


def _set_blas_threads(threads: int) -> None:
    for library in _blas().lib_controllers:
        library.set_num_threads(threads)
    with _blas().limit(limits=None):
        pass  # from now on any thread may change it again


@pytest.fixture
def _two_blas_threads() -> Iterator[None]:
    before = _blas_threads()
    _set_blas_threads(*BLAS_THREADS)
    yield
    _set_blas_threads(max(before))


@pytest.mark.usefixtures("_two_blas_threads")
def test_there_is_one_thread_of_blas_inside() -> None:
    with single_threaded_blas():
        assert _blas_threads() == {1}
        with single_threaded_blas():
            assert _blas_threads() == {1}
        assert _blas_threads() == {1}
    assert _blas_threads() == BLAS_THREADS


@pytest.mark.usefixtures("_two_blas_threads")
def test_an_error_leaves_blas_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), single_threaded_blas():
        _ = 1 / 0
    assert _blas_threads() == BLAS_THREADS


@pytest.mark.usefixtures("_two_blas_threads")
@pytest.mark.parametrize("first_leaves_first", [True, False])
def test_two_at_once_leave_blas_as_it_was(first_leaves_first: bool) -> None:
    first_in, both_in, one_left = Barrier(2), Barrier(2), Barrier(2)

    def work(first: bool) -> None:
        if not first:
            first_in.wait(10)
        with single_threaded_blas():
            if first:
                first_in.wait(10)
            both_in.wait(10)
            assert _blas_threads() == {1}
            both_in.wait(10)
            if first != first_leaves_first:
                one_left.wait(10)
        if first == first_leaves_first:
            one_left.wait(10)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (True, False)))
    assert _blas_threads() == BLAS_THREADS


@pytest.mark.slow
@pytest.mark.usefixtures("_two_blas_threads")
def test_marking_and_searching_keep_to_one_thread_of_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[set[int]]] = {}

    def watch(name: str) -> None:
        watched = getattr(Network, name)

        def look(self: Network, *given: Any) -> Any:
            seen.setdefault(name, []).append(_blas_threads())
            return watched(self, *given)

        monkeypatch.setattr(Network, name, look)

    def blocks() -> Iterator[NDArray[np.float32]]:
        for _ in range(8):
            seen.setdefault("between", []).append(_blas_threads())
            yield noise

    for name in ("mark", "locate"):
        watch(name)
    noise = np.random.default_rng(0).standard_normal(16_000).astype(np.float32) / 10
    marker = ideaw.load(threads=1)
    marked = np.concatenate(list(marker.embed_stream(blocks(), 16_000, "ab12")))
    list(marker.detect_stream([marked], 16_000))
    marker.detect(marked, 16_000, speeds="none")
    assert seen.pop("between") == [BLAS_THREADS] * 8  # the caller has them back
    assert set(seen) == {"mark", "locate"}
    assert all(threads == {1} for calls in seen.values() for threads in calls)


# Forks


def _locate_in_child(network: Network, host: NDArray[np.complex64], answers: Any) -> None:
    with single_threaded_blas():
        answers.put((_blas_threads(), network.locate(host)[0]))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_does_not_wait_for_its_parents_threads(network: Network, host: NDArray[np.complex64]) -> None:
    threaded = Network(network.files, 2)
    code, entered, leave = threaded.locate(host)[0], Event(), Event()

    def hold() -> None:
        with single_threaded_blas():
            entered.set()
            leave.wait(60)

    holder = Thread(target=hold)
    holder.start()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_locate_in_child, args=(threaded, host, answers), daemon=True)
    try:
        assert entered.wait(60)
        child.start()
        threads, childs_code = answers.get(timeout=60)
    finally:
        leave.set()
        holder.join()
        if child.is_alive():
            child.kill()
    assert threads == {1}
    assert np.array_equal(childs_code, code)
