"""A model folder: its graphs do what torch does, and a folder that does not fit says so in one line."""

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, current_thread

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

import ideaw
from ideaw.audio.grid import FRAMES_PER_SECOND, NUM_BINS
from ideaw.audio.level import level
from ideaw.audio.stft import stft
from ideaw.engine.network import ALONE, CARRIERS, GRAPHS, MOST_AT_ONCE, Network, Slots
from ideaw.errors import ModelError
from ideaw.nets.model import Ideaw
from ideaw.train.export import load_weights


@pytest.fixture(scope="module")
def model(folder: Path) -> Ideaw:
    return load_weights(folder)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """The model in a folder of another name, to be spoilt."""
    return Path(shutil.copytree(folder, tmp_path / "model"))


@pytest.fixture
def sibling(folder: Path, tmp_path: Path) -> Path:
    """A folder that holds a card alone; the network that it names lies beside it."""
    card = json.loads((folder / "card.json").read_text())
    shutil.copytree(folder, tmp_path / card["name"])
    (tmp_path / "sibling").mkdir()
    shorter = {"name": "sibling", "message_bits": 22, "message_slots": 528}
    (tmp_path / "sibling" / "card.json").write_text(json.dumps(card | shorter))
    return tmp_path / "sibling"


@pytest.fixture(scope="module")
def host(speech: NDArray[np.float32], strings: NDArray[np.float32]) -> NDArray[np.complex64]:
    """The spectra of two seconds of real audio and a bit, (2, frames, NUM_BINS)."""
    audio = np.stack([speech[40_000:60_000], strings[40_000:60_000]])
    return stft(audio / level(audio))


def _change(folder: Path, **entries: object) -> None:
    """Other entries on a model's card."""
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps(card | entries))


def _stream(network: Network, kind: str, frames: int, seed: int = 0) -> NDArray[np.float32]:
    """A stream (2, frames, bins) of random bits, for up to two seconds."""
    slots: Slots = getattr(network, kind)
    bits = np.random.default_rng(seed).integers(0, 2, (2, len(slots.code.generator)))
    return np.tile(slots.carriers.stream(slots.values(bits)), (1, 2, 1))[:, :frames]


# Graphs


@pytest.mark.slow
def test_each_graph_does_what_torch_does(network: Network, model: Ideaw, host: NDArray[np.complex64]) -> None:
    message, code = (_stream(network, kind, host.shape[1]) for kind in ("message", "code"))
    pairs = torch.view_as_real(torch.from_numpy(host))
    with torch.no_grad():
        residual = torch.view_as_complex(model.mark(pairs, *map(torch.from_numpy, (message, code))).contiguous())
        their_code, *their_rest = model.locate(pairs)
        their_message = model.read(*their_rest)
    our_code, our_rest = network.locate(host)
    our_message = network.read(our_rest)
    # Eight bits: each is itself and some noise. The code's stream has most, 0.26 of it: where there is no code, as
    # here, the stream is faint, and rounding is not.
    all_ours = network.mark(host, message, code), our_code, *our_rest, our_message
    all_theirs = residual, their_code, *their_rest, their_message
    for ours, theirs in zip(all_ours, all_theirs, strict=True):
        assert ours.shape == theirs.shape
        assert np.linalg.norm(ours - theirs.numpy()) < 0.35 * np.linalg.norm(theirs.numpy())


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_parts_are_worked_on_at_once_and_come_back_in_order(folder: Path, threads: int) -> None:
    network = Network(folder, threads)
    assert network.at_once == min(threads, MOST_AT_ONCE)
    meeting, names = Barrier(network.at_once, timeout=10), set()

    def work(item: int) -> int:
        meeting.wait()
        names.add(current_thread().name)
        return item * item

    items = range(2 * network.at_once)
    assert network.each(work, items) == [item * item for item in items]
    assert len(names) == network.at_once
    assert network.each(str, []) == []
    with pytest.raises(ZeroDivisionError):
        network.each(lambda item: 1 // item, [2, 1, 0])


@pytest.mark.parametrize("hops", [0, 1, 127, 128, 200, 255, 256, 640, 641, 1_281, 7_900])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_have_like_parts(network: Network, monkeypatch: pytest.MonkeyPatch, threads: int, hops: int) -> None:
    monkeypatch.setattr(network, "at_once", threads)
    longest = 640
    parts = network.parts(7, 7 + hops, longest)
    assert [hop for part in parts for hop in range(*part)] == list(range(7, 7 + hops))
    lengths = [end - begin for begin, end in parts]
    assert max(lengths, default=0) <= longest
    if hops:
        assert max(lengths) - min(lengths) <= 1
        assert len(parts) == 1 or min(lengths) >= ALONE
        # No thread has nothing to do while others work, unless there is too little for all.
        assert len(parts) % threads == 0 or len(parts) == hops // ALONE or len(parts) == 1


def test_threads_that_need_a_graph_at_once_load_it_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, loaded = Network(folder, 4), []
    load = network._load
    monkeypatch.setattr(network, "_load", lambda name: loaded.append(name) or load(name))
    sessions = network.each(network._session, ["read"] * 4)
    assert loaded == ["read"]
    assert len(set(map(id, sessions))) == 1


def test_each_input_of_the_marking_graph_counts(network: Network, host: NDArray[np.complex64]) -> None:
    inputs = [host, *(_stream(network, kind, host.shape[1]) for kind in ("message", "code"))]
    others = [host[::-1], *(_stream(network, kind, host.shape[1], seed=9) for kind in ("message", "code"))]
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
    code, rest = network.locate(part)
    message = network.read(rest)
    assert code.shape == message.shape == (2, frames, network.card.bins)
    assert code.dtype == message.dtype == np.float32
    alone, rest_alone = network.locate(part[1:])
    assert np.abs(alone[0] - code[1]).max() < 1e-5
    assert np.abs(network.read(rest_alone)[0] - message[1]).max() < 1e-4


# Slots and keys


def test_bits_travel_in_as_many_slots_as_the_card_says(network: Network) -> None:
    for slots, bits, count in (
        (network.message, network.card.message_bits, network.card.message_slots),
        (network.code, network.card.code_bits, network.card.code_slots),
    ):
        assert slots.code.generator.shape == (bits, count)
        assert slots.carriers.slots == count
        values = slots.values(np.ones((3, bits), np.uint8))
        assert values.shape == (3, count)
        assert set(np.unique(values)) <= {-1, 1}


@pytest.mark.slow
def test_another_key_has_other_carriers_and_the_same_graphs(network: Network, host: NDArray[np.complex64]) -> None:
    assert network.with_key(network.key) is network
    other = network.with_key(b"another key")
    again = Network(network._folder).with_key(b"another key")
    for kind in ("message", "code"):
        ours, theirs, same = (_maps(each)[f"{kind}.read"] for each in (network, other, again))
        assert not np.array_equal(ours, theirs)
        assert np.array_equal(theirs, same)
    assert np.array_equal(other.locate(host)[0], network.locate(host)[0])
    assert other._session("locate") is network._session("locate")


# Folders


@pytest.mark.parametrize("name", ["card.json", *(f"{graph}.onnx" for graph in GRAPHS)])
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(ModelError, match=name):
        Network(copy)


def test_a_folder_that_is_none_is_named(tmp_path: Path, copy: Path) -> None:
    for place in (tmp_path / "nowhere", copy / "card.json"):
        with pytest.raises(ModelError, match=place.name):
            Network(place)


def test_a_card_may_name_the_network_beside_it(
    sibling: Path, host: NDArray[np.complex64], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(sibling)
    assert network.card.message_bits == 22
    code = network.locate(host)[0]
    (sibling.parent / "elsewhere").mkdir()
    link = sibling.parent / "elsewhere" / "link"
    link.symlink_to(sibling)
    monkeypatch.chdir(sibling)
    for place in (Path("."), Path("..") / "sibling", link):
        assert np.array_equal(Network(place).locate(host)[0], code)


def test_a_network_that_is_not_beside_is_named(sibling: Path) -> None:
    name = json.loads((sibling / "card.json").read_text())["network"]
    (sibling.parent / name / "read.onnx").unlink()
    with pytest.raises(ModelError, match=r"read\.onnx"):
        Network(sibling)
    shutil.rmtree(sibling.parent / name)
    with pytest.raises(ModelError, match="which is not beside it") as caught:
        Network(sibling)
    assert name in str(caught.value)


@pytest.mark.slow
def test_packaged_models_work_from_a_zip_file(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    package = Path(ideaw.__file__).parent
    with zipfile.ZipFile(tmp_path / "ideaw.zip", "w") as archive:
        for path in package.rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                archive.write(path, Path("ideaw") / path.relative_to(package))
    np.save(tmp_path / "speech.npy", speech[:32_000])
    script = f"""
import sys
sys.path.insert(0, {str(tmp_path / "ideaw.zip")!r})
import ideaw, numpy
assert ".zip" in ideaw.__file__
speech = numpy.load({str(tmp_path / "speech.npy")!r})
for name in ideaw.model_names():
    marker = ideaw.load(name)
    print(name, marker.detect(marker.embed(speech, 16_000, (1, 0, 1)), 16_000).message)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{name} (1, 0, 1)" for name in ideaw.model_names()]


# Cards


@pytest.mark.parametrize("text", ["", "[1, 2]", "3", "{}", '{"name": "46+10"}', "\xff"])
def test_a_card_that_is_none_is_refused(copy: Path, text: str) -> None:
    (copy / "card.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match=r"card\.json") as caught:
        Network(copy)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "entries",
    [
        {"message_bits": 0},
        {"message_bits": 46.0},
        {"message_bits": 99},
        {"code_bits": 99},
        {"code_bits": 0},
        {"code_bits": 0, "code_slots": False},
        {"whole": True},
        {"whole": 1},
        {"code_slots": 641},
        {"bins": 481},
        {"bins": 2 * NUM_BINS + 2},
        {"bins": "x"},
        {"context": 39},
        {"context": {"mark": 36, "locate": 15}},
        {"context": {"mark": 36, "locate": 15, "read": -1}},
        {"snr": "loud"},
        {"snr": float("nan")},
        {"snr": 101},
        {"snr": True},
        {"learned": 0},
        {"name": 7},
        {"network": None},
        {"network": "../46+10"},
        {"network": "a\\b"},
    ],
)
def test_a_card_that_does_not_fit_is_refused(copy: Path, entries: dict[str, object]) -> None:
    _change(copy, **entries)
    with pytest.raises(ModelError, match=r"card\.json"):
        Network(copy)


def test_what_the_engine_does_not_need_is_kept_as_facts(copy: Path) -> None:
    _change(copy, remark="hello")
    assert Network(copy).card.facts["remark"] == "hello"


# Damage


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("damage", [lambda graph: b"no graph", lambda graph: graph[: len(graph) // 2]])
def test_a_damaged_graph_is_named_when_it_is_needed(
    copy: Path, host: NDArray[np.complex64], name: str, damage: Callable[[bytes], bytes]
) -> None:
    rest = Network(copy).locate(host)[1]
    (copy / f"{name}.onnx").write_bytes(damage((copy / f"{name}.onnx").read_bytes()))
    damaged = Network(copy)
    streams = [_stream(damaged, kind, host.shape[1]) for kind in ("message", "code")]
    work = {
        "mark": lambda: damaged.mark(host, *streams),
        "locate": lambda: damaged.locate(host),
        "read": lambda: damaged.read(rest),
    }
    with pytest.raises(ModelError, match=rf"{name}\.onnx"):
        work[name]()


def test_graphs_of_another_model_are_refused(copy: Path, host: NDArray[np.complex64]) -> None:
    rest = Network(copy).locate(host)[1]
    _change(copy, bins=240)
    other = Network(copy)
    for work in (lambda: other.locate(host), lambda: other.read(rest)):
        with pytest.raises(ModelError, match="does not fit the card"):
            work()


def test_graphs_of_an_earlier_version_are_refused(copy: Path, host: NDArray[np.complex64]) -> None:
    rest = Network(copy).locate(host)[1]
    for name in ("locate", "read"):
        graph = onnx.load(copy / f"{name}.onnx")
        for node in graph.graph.node:
            for ends in (node.input, node.output):
                ends[:] = ["code_found" if end == "found" else end for end in ends]
        for end in (*graph.graph.input, *graph.graph.output):
            end.name = "code_found" if end.name == "found" else end.name
        onnx.save(graph, copy / f"{name}.onnx")
    other = Network(copy)
    for work in (lambda: other.locate(host), lambda: other.read(rest)):
        with pytest.raises(ModelError, match="export the model again"):
            work()


# Learned carriers


@pytest.fixture
def learned(copy: Path, network: Network) -> Path:
    """The model as if it had learned just those carriers that are drawn from the public key."""
    _change(copy, learned=True)
    save_file(_maps(network), copy / CARRIERS)
    return copy


def _maps(network: Network) -> dict[str, NDArray[np.float16]]:
    kinds = {"message": network.message.carriers, "code": network.code.carriers}
    whole = {kind: carriers.stream(np.eye(carriers.slots)).astype(np.float16) for kind, carriers in kinds.items()}
    return {f"{kind}.{way}": maps for kind, maps in whole.items() for way in ("write", "read")}


@pytest.mark.slow
def test_learned_carriers_are_used_like_drawn_ones(learned: Path, network: Network) -> None:
    found = Network(learned)
    bits = np.random.default_rng(0).integers(0, 2, (3, network.card.message_bits))
    stream = network.message.carriers.stream(network.message.values(bits))
    assert np.array_equal(found.message.carriers.stream(found.message.values(bits)), stream)
    logits = [each.carriers.slot_llrs(each.carriers.sum_bins(stream)) for each in (network.message, found.message)]
    assert np.allclose(*logits, rtol=1e-5)
    assert np.array_equal(_maps(found.with_key(b"any"))["message.read"], _maps(found)["message.read"])


def _damages() -> dict[str, Callable[[Path, Network], object]]:
    def header(content: bytes) -> bytes:
        return len(content).to_bytes(8, "little") + content

    def with_maps(**changed: NDArray) -> Callable[[Path, Network], object]:
        return lambda path, network: save_file(
            _maps(network) | {k.replace("_", "."): v for k, v in changed.items()}, path
        )

    def without(path: Path, network: Network) -> None:
        save_file({name: maps for name, maps in _maps(network).items() if name != "code.read"}, path)

    return {
        "missing": lambda path, _: path.unlink(),
        "empty": lambda path, _: path.write_bytes(b""),
        "truncated": lambda path, _: path.write_bytes(path.read_bytes()[:100_000]),
        "header cut": lambda path, _: path.write_bytes(path.read_bytes()[:50]),
        "text": lambda path, _: path.write_text("no carriers at all"),
        "no header": lambda path, _: path.write_bytes(header(b"[1, 2]")),
        "header without entries": lambda path, _: path.write_bytes(header(b'{"code.read": 3}')),
        "single precision": with_maps(code_read=np.zeros((32, FRAMES_PER_SECOND, 480), np.float32)),
        "another size": with_maps(message_write=np.zeros((97, FRAMES_PER_SECOND, 480), np.float16)),
        "one left out": without,
    }


@pytest.mark.slow
@pytest.mark.parametrize("damage", _damages())
def test_damaged_learned_carriers_are_named(learned: Path, network: Network, damage: str) -> None:
    _damages()[damage](learned / CARRIERS, network)
    with pytest.raises(ModelError, match=CARRIERS) as caught:
        Network(learned)
    assert "\n" not in str(caught.value)


def test_a_model_for_another_version_is_to_be_exported_again(copy: Path) -> None:
    _change(copy, version=1)
    with pytest.raises(ModelError, match="export it again"):
        Network(copy)


def test_there_must_be_tiles_for_all_slots(copy: Path) -> None:
    _change(copy, bins=20)
    with pytest.raises(ModelError, match="cannot run"):
        Network(copy)
