"""Models for comparisons: learned carriers are used like keyed ones, waveform models are read, damage is named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

import ideaw
from ideaw.audio.grid import FRAMES_PER_SECOND, SEGMENT_SAMPLES
from ideaw.bench.rivals import CARRIERS_FILE, WAVEFORM_GRAPHS, RivalNetwork, load_segment_marker
from ideaw.errors import ModelError
from ideaw.keys import PUBLIC
from ideaw.marker import Marker
from ideaw.models import DEFAULT_MODEL, GRAPHS, model_folder
from ideaw.modem.channel import KeyChannels
from ideaw.segment_marker import SegmentMarker


@pytest.fixture(scope="module")
def shipped() -> Marker:
    return ideaw.load(threads=1)


@pytest.fixture(scope="module")
def channels(shipped: Marker) -> KeyChannels:
    """Of the shipped model under the public key."""
    return shipped.network.channels(PUBLIC)


@pytest.fixture
def learned(channels: KeyChannels, tmp_path: Path) -> Path:
    """The shipped model as if it had learned just those carriers that are drawn from the public key."""
    folder = Path(shutil.copytree(str(model_folder(DEFAULT_MODEL)), tmp_path / "model"))
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps(card | {"learned_carriers": True}))
    save_file(_carrier_maps(channels), folder / CARRIERS_FILE)
    return folder


def _carrier_maps(channels: KeyChannels) -> dict[str, NDArray[np.float16]]:
    kinds = {"message": channels.message.carriers, "code": channels.code.carriers}
    maps = {kind: carriers.stream(np.eye(carriers.slots, dtype=np.float32)) for kind, carriers in kinds.items()}
    return {f"{kind}.{way}": maps[kind].astype(np.float16) for kind in kinds for way in ("write", "read")}


def _bits(marker: SegmentMarker, batch: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Of message and code."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 2, (batch, marker.message_bits)), rng.integers(0, 2, (batch, marker.code_bits))


# Learned carriers


@pytest.mark.slow
def test_learned_carriers_are_used_like_keyed_ones(
    learned: Path, shipped: Marker, channels: KeyChannels, speech: NDArray[np.float32]
) -> None:
    rival = load_segment_marker(learned)
    assert isinstance(rival.network, RivalNetwork)
    assert not isinstance(rival, Marker)
    theirs = rival.network.channels(PUBLIC)
    bits = _bits(rival, 3)
    stream = channels.message.carriers.stream(channels.message.fec.symbols(bits[0]))
    assert np.array_equal(theirs.message.carriers.stream(theirs.message.fec.symbols(bits[0])), stream)
    llrs = [
        channel.carriers.slot_llrs(channel.carriers.sum_bins(stream)) for channel in (channels.message, theirs.message)
    ]
    assert np.allclose(*llrs, rtol=1e-5)
    segments = speech[-3 * SEGMENT_SAMPLES :].reshape(3, SEGMENT_SAMPLES)
    marked = rival.embed_segment(segments, *bits)
    np.testing.assert_allclose(marked, shipped.embed_segment(segments, *bits), atol=1e-6)
    for read, written in zip(rival.extract_segment(marked), bits, strict=True):
        assert np.array_equal(read > 0, written > 0)


@pytest.mark.slow
def test_learned_carriers_are_the_same_for_every_key(learned: Path) -> None:
    network = load_segment_marker(learned).network
    public, keyed = (_carrier_maps(network.channels(key)) for key in (PUBLIC, b"any"))
    assert all(np.array_equal(public[name], keyed[name]) for name in public)


def _damages() -> dict[str, Callable[[Path, KeyChannels], object]]:
    def header(content: bytes) -> bytes:
        return len(content).to_bytes(8, "little") + content

    def with_maps(**changed: NDArray[np.floating]) -> Callable[[Path, KeyChannels], object]:
        renamed = {name.replace("_", "."): maps for name, maps in changed.items()}
        return lambda path, channels: save_file({**_carrier_maps(channels), **renamed}, path)

    def without(path: Path, channels: KeyChannels) -> None:
        save_file({name: maps for name, maps in _carrier_maps(channels).items() if name != "code.read"}, path)

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
def test_damaged_learned_carriers_are_named(learned: Path, channels: KeyChannels, damage: str) -> None:
    _damages()[damage](learned / CARRIERS_FILE, channels)
    with pytest.raises(ModelError, match=CARRIERS_FILE) as caught:
        load_segment_marker(learned)
    assert "\n" not in str(caught.value)


# Waveforms


@pytest.fixture(scope="module")
def waveform(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network on wavelets, untrained."""
    import torch

    from ideaw.nets.build import build_network
    from ideaw.nets.config import NetConfig
    from ideaw.train.export import export_model

    torch.manual_seed(1)
    sizes = NetConfig(9, 0, 9, 0, 3, 0, message_width=4, balance_blocks=0, domain="wavelet", carriers="learned")
    folder = tmp_path_factory.mktemp("waveform")
    export_model(build_network(sizes), folder, 6.0, {})
    return folder


@pytest.mark.slow
def test_a_model_on_waveforms_marks_and_reads_segments(waveform: Path, speech: NDArray[np.float32]) -> None:
    import torch

    from ideaw.nets.rivals.wavelet import WaveletNet
    from ideaw.train.export import load_weights

    rival, model = load_segment_marker(waveform), load_weights(waveform)
    assert isinstance(model, WaveletNet)
    assert rival.network.graph_names == WAVEFORM_GRAPHS
    assert not rival.network.has_locating_code
    segments = speech[-2 * SEGMENT_SAMPLES :].reshape(2, SEGMENT_SAMPLES)
    bits = _bits(rival, 2)
    marked = rival.embed_segment(segments, *bits)
    snrs = 10 * np.log10(np.square(segments).sum(1) / np.square(marked - segments, dtype=np.float64).sum(1))
    assert (snrs >= 6).all()
    assert (snrs < 6.01).all()
    llrs, code_llrs = rival.extract_segment(marked)
    assert llrs.shape == bits[0].shape
    assert code_llrs.shape == (2, 0)
    with torch.no_grad():
        expected = model.extract(torch.from_numpy(marked), model.carriers())[0].numpy()
    np.testing.assert_allclose(llrs, expected, rtol=2e-2, atol=2e-2 * np.abs(expected).max())  # half precision


@pytest.mark.slow
def test_each_graph_of_a_model_on_waveforms_counts_for_its_identity(waveform: Path, tmp_path: Path) -> None:
    seen = {load_segment_marker(waveform).weights_id}
    folder = Path(shutil.copytree(waveform, tmp_path / "model"))
    for name in WAVEFORM_GRAPHS:
        path = folder / f"{name}.onnx"
        path.write_bytes(path.read_bytes() + b"\0")
        seen.add(load_segment_marker(folder).weights_id)
    assert len(seen) == 1 + len(WAVEFORM_GRAPHS)


# What is no rival


def test_a_packaged_model_is_loaded_as_it_always_is(shipped: Marker) -> None:
    for model in (None, DEFAULT_MODEL, str(model_folder(DEFAULT_MODEL))):
        marker = load_segment_marker(model)
        assert isinstance(marker, Marker)
        assert marker.network.graph_names == GRAPHS
        assert marker.weights_id == shipped.weights_id


def test_a_place_without_a_model_is_named(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ModelError, match=place.name):
            load_segment_marker(place)
