"""Model folders: cards are checked field by field, graphs lie where the card says, and the packaged ones are pinned."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw
from ideaw.audio.grid import NUM_BINS, SEGMENT_SAMPLES
from ideaw.audio.spectrum import stft
from ideaw.engine.network import Network
from ideaw.errors import ModelError
from ideaw.models import (
    DEFAULT_MODEL,
    GRAPHS,
    MAX_CONTEXT_FRAMES,
    ModelFiles,
    find_model,
    model_folder,
    model_names,
)


@pytest.fixture(scope="session")
def folder() -> Path:
    return Path(str(model_folder(DEFAULT_MODEL)))


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
def host(speech: NDArray[np.float32]) -> NDArray[np.complex64]:
    """The spectrum of a second of speech, (1, frames, NUM_BINS)."""
    return stft(speech[None, 3 * SEGMENT_SAMPLES : 4 * SEGMENT_SAMPLES])


def _change(folder: Path, **entries: object) -> None:
    """Other entries on a model's card."""
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps(card | entries))


# Folders


def test_packaged_models_have_names_and_the_default_is_one_of_them() -> None:
    assert DEFAULT_MODEL in model_names()
    for name in model_names():
        files = find_model(name)
        assert files.card.name == files.source == name
        assert files.packaged
    assert find_model(None) == find_model(DEFAULT_MODEL)


def test_a_name_that_no_model_has_is_told_with_those_that_there_are() -> None:
    with pytest.raises(ModelError, match="99\\+99") as caught:
        find_model("99+99")
    assert all(name in str(caught.value) for name in model_names())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["card.json", *(f"{graph}.onnx" for graph in GRAPHS)])
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(ModelError, match=name):
        find_model(copy)


def test_a_file_that_goes_missing_later_is_named(copy: Path) -> None:
    files = find_model(copy)
    (copy / "read.onnx").unlink()
    with pytest.raises(ModelError, match=r"read\.onnx"):
        files.read("read.onnx")


def test_a_folder_that_is_none_is_named(tmp_path: Path, copy: Path) -> None:
    for place in (tmp_path / "nowhere", copy / "card.json"):
        with pytest.raises(ModelError, match=place.name):
            find_model(place)


def test_a_card_may_name_the_network_beside_it(
    sibling: Path, host: NDArray[np.complex64], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(find_model(sibling))
    assert network.card.message_bits == 22
    code = network.locate(host)[0]
    (sibling.parent / "elsewhere").mkdir()
    link = sibling.parent / "elsewhere" / "link"
    link.symlink_to(sibling)
    monkeypatch.chdir(sibling)
    for place in (Path("."), Path("..") / "sibling", link):
        assert np.array_equal(Network(find_model(place)).locate(host)[0], code)


def test_a_network_that_is_not_beside_is_named(sibling: Path) -> None:
    name = json.loads((sibling / "card.json").read_text())["network"]
    (sibling.parent / name / "read.onnx").unlink()
    with pytest.raises(ModelError, match=r"read\.onnx"):
        find_model(sibling)
    shutil.rmtree(sibling.parent / name)
    with pytest.raises(ModelError, match="which is not beside it") as caught:
        find_model(sibling)
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


# Graphs that were released


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_packaged_graph_that_was_not_released_is_refused(copy: Path, host: NDArray[np.complex64], graph: str) -> None:
    path = copy / f"{graph}.onnx"
    as_if_packaged = ModelFiles(find_model(copy).card, copy, "46+10", packaged=True)
    assert as_if_packaged.read(path.name) == path.read_bytes()
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ModelError, match=f"{graph}.onnx of the packaged model is not the released one"):
        as_if_packaged.read(path.name)
    with pytest.raises(ModelError, match=f"{graph}.onnx"):
        Network(as_if_packaged).session(graph)
    assert find_model(copy).read(path.name) == path.read_bytes()  # a folder of one's own may hold any graph


# Cards


@pytest.mark.parametrize("text", ["", "[1, 2]", "3", "{}", '{"name": "46+10"}', "\xff"])
def test_a_card_that_is_none_is_refused(copy: Path, text: str) -> None:
    (copy / "card.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match=r"card\.json") as caught:
        find_model(copy)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ({"message_bits": 0}, "message_bits"),
        ({"message_bits": 46.0}, "message_bits"),
        ({"message_bits": "46"}, "message_bits"),
        ({"message_bits": True}, "message_bits"),
        ({"message_bits": 99}, "message slots"),
        ({"code_bits": 99}, "code slots"),
        ({"code_bits": 0}, "code slots"),
        ({"code_bits": 0, "code_slots": False}, "code_slots"),
        ({"code_bits": -1}, "code_bits"),
        ({"code_slots": 641}, "slots"),
        ({"code_slots": 10**9}, "code_slots"),
        ({"bins": 481}, "bins"),
        ({"bins": 2 * NUM_BINS + 2}, "bins"),
        ({"bins": "x"}, "bins"),
        ({"bins": 20}, "slots"),
        ({"context": 39}, "context"),
        ({"context": {"mark": 36, "locate": 15}}, "context lacks read"),
        ({"context": {"mark": 36, "locate": 15, "read": -1}}, "context"),
        ({"context": {"mark": 36, "locate": 15, "read": MAX_CONTEXT_FRAMES + 1}}, "context"),
        ({"context": {"mark": 36, "locate": 10**9, "read": 24}}, "context"),
        ({"context": {"mark": 36, "locate": 1.5, "read": 24}}, "context"),
        ({"snr": "loud"}, "snr"),
        ({"snr": float("nan")}, "snr"),
        ({"snr": 101}, "snr"),
        ({"snr": True}, "snr"),
        ({"name": 7}, "name"),
        ({"network": None}, "network"),
        ({"network": ""}, "network"),
        ({"network": "."}, "network"),
        ({"network": ".."}, "network"),
        ({"network": "../46+10"}, "network"),
        ({"network": "a\\b"}, "network"),
        ({"scrambled_by_code": 1}, "scrambled_by_code"),
    ],
)
def test_a_card_that_does_not_fit_is_refused_and_the_field_is_named(
    copy: Path, entries: dict[str, object], named: str
) -> None:
    _change(copy, **entries)
    with pytest.raises(ModelError, match=r"card\.json") as caught:
        find_model(copy)
    reason = str(caught.value).replace(str(copy), "")
    assert re.search(rf"\b{named}\b", reason), reason
    assert "\n" not in reason


@pytest.mark.parametrize("field", ["name", "network", "message_bits", "context", "scrambled_by_code"])
def test_a_field_that_is_missing_is_named(copy: Path, field: str) -> None:
    card = json.loads((copy / "card.json").read_text())
    del card[field]
    (copy / "card.json").write_text(json.dumps(card))
    with pytest.raises(ModelError, match=f"`{field}`"):
        find_model(copy)


def test_what_the_engine_does_not_need_is_kept_as_facts(copy: Path) -> None:
    _change(copy, remark="hello")
    assert find_model(copy).card.facts["remark"] == "hello"


def test_a_model_for_another_version_is_to_be_exported_again(copy: Path) -> None:
    _change(copy, wire_format=2)
    with pytest.raises(ModelError, match="export it again"):
        find_model(copy)


def test_there_must_be_tiles_for_all_slots(copy: Path) -> None:
    _change(copy, bins=20)
    with pytest.raises(ModelError, match="cannot run"):
        find_model(copy)


@pytest.mark.parametrize("entries", [{"learned_carriers": True}, {"waveform_io": True}])
def test_a_model_for_comparisons_is_not_loaded_to_search_with(copy: Path, entries: dict[str, object]) -> None:
    _change(copy, **entries)
    with pytest.raises(ModelError, match="for comparisons"):
        find_model(copy)
    with pytest.raises(ModelError, match="for comparisons"):
        ideaw.load(copy)
