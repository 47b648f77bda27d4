"""audiowmark: 128 bits; a program of its own, without a network. It reads and writes files."""

import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import soundfile

from . import Adapter, PeerResult, Samples

PATTERN_LINE = re.compile(r"^pattern\s+(\S+)\s+([0-9a-f]{32})\s+([\d.]+)", re.MULTILINE)
"""A line of its findings: where, the message, and how well the block was found (about 1 and more)."""


class AudioWMark(Adapter):
    """The program on the PATH; it uses one thread."""

    bits = 128

    def __init__(self, threads: int) -> None:
        pass

    def embed(self, samples: Samples, rate: int, message: str) -> Samples:
        with tempfile.TemporaryDirectory() as folder:
            host, marked = (Path(folder) / name for name in ("host.wav", "marked.wav"))
            soundfile.write(host, samples, rate, "FLOAT")
            _run("add", str(host), str(marked), f"{int(message, 2):032x}")
            return np.asarray(soundfile.read(marked, dtype="float32", always_2d=True)[0])

    def detect(self, samples: Samples, rate: int) -> PeerResult:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "file.wav"
            soundfile.write(file, samples, rate, "FLOAT")
            patterns = {
                where: (digits, float(score)) for where, digits, score in PATTERN_LINE.findall(_run("get", str(file)))
            }
        if not patterns:
            return PeerResult(False, None, 0.0)
        digits, score = patterns.get("all") or next(iter(patterns.values()))
        return PeerResult(True, f"{int(digits, 16):0{self.bits}b}", min(1.0, score))


def _run(*arguments: str) -> str:
    done = subprocess.run(["audiowmark", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
    return done.stdout


adapter = AudioWMark
