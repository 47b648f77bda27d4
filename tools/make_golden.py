"""Make the golden files of a wire format: marked audio that every later version must still read.

    python tools/make_golden.py tests/golden/1

Run once for each number of the format; existing folders of tests/golden are never made again.
"""

import argparse
import io
import json
import tempfile
from importlib import resources
from pathlib import Path

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

import ideaw

SECRET_KEY = "8f1d2c3b4a59687786950413221f0e0d8f1d2c3b4a59687786950413221f0e0d"
"""Only of these files: it protects nothing."""

FILES: list[dict[str, object]] = [
    {"file": "text.flac", "model": "46+10", "host": "speech", "seconds": 3, "text": "ok"},
    {"file": "bytes-secret.flac", "model": "46+10", "host": "speech", "seconds": 3, "bytes": "00ff10", "secret": True},
    {"file": "bits.flac", "model": "22+10", "host": "speech", "seconds": 3, "bits": "0110100"},
    {"file": "letter-secret.flac", "model": "22+10", "host": "speech", "seconds": 2, "text": "A", "secret": True},
    {"file": "few-bits.flac", "model": "10+10", "host": "speech", "seconds": 4, "bits": "101"},
    {"file": "few-bits-secret.mp3", "model": "10+10", "host": "music", "seconds": 3, "bits": "0110", "secret": True},
    {"file": "stereo.ogg", "model": "46+10", "host": "music", "seconds": 3, "text": "wide"},
    {"file": "stereo-secret.mp3", "model": "22+10", "host": "music", "seconds": 3, "bits": "11001010", "secret": True},
    {"file": "long.ogg", "model": "46+10", "host": "speech", "seconds": 12, "text": "twenty letters here."},
    {"file": "word-secret.ogg", "model": "46+10", "host": "speech", "seconds": 5, "text": "seventh", "secret": True},
    {"file": "long-bits.ogg", "model": "22+10", "host": "speech", "seconds": 6, "bits": "01101" * 8},
    {
        "file": "long-bytes-secret.mp3",
        "model": "22+10",
        "host": "music",
        "seconds": 4,
        "bytes": "00ff1020",
        "secret": True,
    },
    {"file": "deep.ogg", "model": "46+10", "host": "speech", "seconds": 12, "text": "ok", "layers": "deep"},
    {
        "file": "deep-secret.ogg",
        "model": "46+10",
        "host": "speech",
        "seconds": 12,
        "bits": "10110",
        "layers": "deep",
        "secret": True,
    },
]
"""What is marked: the packaged sample, repeated to so many seconds; what with, and which message."""

RESIDUAL: dict[str, object] = {"model": "46+10", "host": "speech", "seconds": 2, "text": "ok"}


def message_of(entry: dict[str, object]) -> str | bytes | tuple[int, ...]:
    """The message of an entry: text, bytes in hexadecimal digits, or bits."""
    if "text" in entry:
        return str(entry["text"])
    return bytes.fromhex(str(entry["bytes"])) if "bytes" in entry else tuple(map(int, str(entry["bits"])))


def host_of(entry: dict[str, object]) -> tuple[NDArray[np.float64], int]:
    """The unmarked samples `(n,)` or `(n, channels)` of an entry, and their rate in Hz."""
    name = "speech.flac" if entry["host"] == "speech" else "music.ogg"
    samples, rate = sf.read(io.BytesIO(resources.files("ideaw").joinpath("samples", name).read_bytes()))
    length = int(str(entry["seconds"])) * rate
    return np.concatenate([samples] * (length // len(samples) + 1))[:length], rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder that is not there yet, such as tests/golden/1")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True)
    for entry in FILES:
        key = {"key": ideaw.Key(bytes.fromhex(SECRET_KEY))} if entry.get("secret") else {}
        marker = ideaw.load(str(entry["model"]), threads=1, **key)
        samples, rate = host_of(entry)
        with tempfile.TemporaryDirectory() as temporary:
            plain, marked = Path(temporary, "plain.wav"), folder / str(entry["file"])
            sf.write(plain, samples, rate)
            layers = str(entry.get("layers", "fast"))
            marker.embed_file(plain, marked, message_of(entry), layers=layers)
        print(f"{marked} {marked.stat().st_size} bytes: {marker.detect_file(marked, layers=layers)}", flush=True)
    samples, rate = host_of(RESIDUAL)
    marker = ideaw.load(str(RESIDUAL["model"]), threads=1)
    marked_samples = marker.embed(samples, rate, message_of(RESIDUAL), snr=marker.card.snr)
    residual = marked_samples - samples
    scale = float(np.abs(residual).max()) / (1 - 2**-15)
    sf.write(folder / "residual.flac", residual / scale, rate, "PCM_16")
    manifest = {"secret_key": SECRET_KEY, "files": FILES, "residual": {**RESIDUAL, "scale": scale}}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
