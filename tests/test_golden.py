"""What earlier versions marked is still found: the files of tests/golden, each of the wire format it is named after.

Marks are compared by the messages that are read from them. Samples cannot be equal bit for bit on every machine, so
of embedding only a residual is compared, within the rounding of its 16-bit file and of float32 arithmetic.
"""

import io
import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf

import ideaw

FOLDERS = sorted(path.parent for path in Path(__file__).parent.joinpath("golden").glob("*/manifest.json"))
MANIFESTS = {folder: json.loads((folder / "manifest.json").read_text()) for folder in FOLDERS}
FILES = [(folder, entry) for folder, manifest in MANIFESTS.items() for entry in manifest["files"]]

ARITHMETIC = 1e-6
"""Difference of samples that other processors and other versions of onnxruntime may make; full scale is 1."""


def message_of(entry: dict[str, Any]) -> str | bytes | tuple[int, ...]:
    if "text" in entry:
        return entry["text"]
    return bytes.fromhex(entry["bytes"]) if "bytes" in entry else tuple(map(int, entry["bits"]))


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "entry"), FILES, ids=[f"{folder.name}/{entry['file']}" for folder, entry in FILES])
def test_marks_of_earlier_versions_are_found(folder: Path, entry: dict[str, Any]) -> None:
    key = ideaw.Key(bytes.fromhex(MANIFESTS[folder]["secret_key"]))
    marker = ideaw.load(entry["model"], threads=1)
    keys, layers = [key] if entry.get("secret") else None, entry.get("layers", "fast")
    detection = marker.detect_file(folder / entry["file"], keys=keys, layers=layers)
    assert detection.message == message_of(entry)
    assert detection.wire_format == int(folder.name)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_secret_marks_are_not_found_with_the_public_key(folder: Path) -> None:
    entry = next(entry for entry in MANIFESTS[folder]["files"] if entry.get("secret"))
    assert not ideaw.load(entry["model"], threads=1).detect_file(folder / entry["file"]).found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_mark_at_a_fixed_snr_sounds_as_in_earlier_versions(folder: Path) -> None:
    entry = MANIFESTS[folder]["residual"]
    expected = entry["scale"] * sf.read(folder / "residual.flac")[0]
    speech = resources.files("ideaw").joinpath("samples", "speech.flac").read_bytes()
    host, rate = sf.read(io.BytesIO(speech), frames=len(expected))
    marker = ideaw.load(entry["model"], threads=1)
    residual = marker.embed(host, rate, message_of(entry), snr=marker.card.snr) - host
    rounding = entry["scale"] * 2**-16
    np.testing.assert_allclose(residual, expected, rtol=0, atol=ARITHMETIC + rounding)
