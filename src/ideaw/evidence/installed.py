"""What is installed: versions, and SHA-256 that anybody can take again with the programs of the system."""

import hashlib
import platform
from importlib import metadata, resources
from pathlib import Path

from ideaw.models import DEFAULT_MODEL, PACKAGED_SHA256, model_folder
from ideaw.modem.channel import WIRE_FORMAT

PACKAGE_COMMAND = (
    "find . -type f -not -path '*/__pycache__/*' | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum | cut -c -64"
)
"""What gives the digest of the package in a shell, in the folder of its modules."""

DATA_OF_LAYERS = ("deep/speech_spectrum.npy",)
"""Files besides the networks that decide what a mark is."""

LIBRARIES = ("onnxruntime", "numpy", "soxr", "soundfile")
"""What computes marks, and reads and writes audio."""


def versions() -> dict[str, str]:
    """Name → version of the package, of its formats, and of what it runs on."""
    return {
        "ideaw": metadata.version("ideaw"),
        "wire format": str(WIRE_FORMAT),
        "model": DEFAULT_MODEL,
        **{name: metadata.version(name) for name in LIBRARIES},
        "Python": platform.python_version(),
        "system": f"{platform.system()} on {platform.machine()}",
    }


def hashes() -> dict[str, str]:
    """What it is → its SHA-256: the package as a whole, the files of the network, and the data of layers."""
    folder = Path(str(resources.files("ideaw")))
    weights = model_folder(DEFAULT_MODEL)
    return {
        "package": package_digest(folder),
        **{name: hashlib.sha256(weights.joinpath(name).read_bytes()).hexdigest() for name in PACKAGED_SHA256},
        **{name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in DATA_OF_LAYERS},
    }


def changed_weights(taken: dict[str, str]) -> list[str]:
    """The files of the network that are not those that were released."""
    return [name for name, released in PACKAGED_SHA256.items() if taken[name] != released]


def package_digest(folder: Path) -> str:
    """The SHA-256 of the list that `sha256sum` prints of all files of a folder, in the order of their names."""
    paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    named = sorted((f"./{path.relative_to(folder).as_posix()}".encode(), path) for path in paths)
    digest = hashlib.sha256()
    for name, path in named:
        digest.update(hashlib.sha256(path.read_bytes()).hexdigest().encode() + b"  " + name + b"\n")
    return digest.hexdigest()
