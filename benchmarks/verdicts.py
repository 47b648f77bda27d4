"""Which verdict `ideaw verify` gives on files that were edited, forged or joined: counts of each, by what was done.

    python benchmarks/verdicts.py FOLDER [--clips 16] [--json docs/results/verdicts.json]

FOLDER holds mono clips of 16 kHz named KIND-NUMBER; as many of each kind are taken. Each is issued as a WAV file with a
certificate of a test authority; then it is edited, robbed of its manifest, or its mark and manifest are put on the next
clip. A transplant needs neither key nor original (`ideaw.bench.transplant`); the difference of marked file and original
under other audio needs the original.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.attacks import catalogue
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.bench.transplant import transplant
from ideaw.provenance.credentials import make_test_authority
from ideaw.provenance.manifest import Claim, sidecar_of, sign_file
from ideaw.provenance.registry import Registry
from ideaw.provenance.verdict import VerdictStatus

Audio: TypeAlias = NDArray[np.float64]

CUT_SECONDS = 3
REPLACED_SECONDS = (3, 2, 1.5, 1)
LONG_MESSAGE_LETTERS, LONG_MESSAGE_SECONDS = 60, 4
"""A message that fills more seconds than are left of it."""


@dataclass(frozen=True)
class Issued:
    """A clip with its credentials: samples before and after, the file, and the id."""

    original: Audio
    marked: Audio
    path: Path
    id: int


@dataclass(frozen=True)
class Row:
    """What is done to a clip and the next one, which verdict is right, and whether the registry is asked."""

    label: str
    expected: VerdictStatus
    make: Callable[[Issued, Issued, Path], None]
    registry: bool = True


class Forge:
    """Makes the files of every row.

    Args:
        marker: model and key.
        signer: of the test authority.
    """

    def __init__(self, marker: ideaw.Marker, signer: ideaw.Signer) -> None:
        self._marker, self._signer = marker, signer

    def rows(self) -> Iterator[Row]:
        """All rows, in the order of the table of verdicts."""
        yield Row("as it was issued", "authentic", lambda clip, other, path: _copy(clip.path, path))
        for label, name, strengths in (
            ("MP3 64 kbit/s", "mp3", {}),
            ("Opus 32 kbit/s", "opus", {}),
            ("noise 20 dB below", "noise", {"snr": 20.0}),
            ("resampled to 24 kHz and back", "resample", {"ratio": 1.5}),
            ("5 % faster", "speed", {}),
            ("5 % faster at the same pitch", "tempo", {}),
            ("a semitone higher at the same tempo", "pitch", {}),
        ):
            yield Row(f"{label}, no manifest", "authentic", self._attacked(name, strengths))
        yield Row(f"cut to {CUT_SECONDS} s, no manifest", "authentic", self._cut)
        yield Row("manifest stripped", "authentic", lambda clip, other, path: _write(path, clip.marked))
        yield Row("a sample changed, manifest kept", "authentic", self._changed)
        yield Row("manifest of another file beside it", "authentic", self._misfiled)
        yield Row("mark transplanted", "copied", self._transplanted)
        yield Row("mark transplanted from MP3 128 kbit/s", "copied", self._transplanted_from_mp3)
        yield Row("difference of mark and original under other audio", "none", self._difference)
        yield Row("second half replaced by other audio", "partial", self._half_replaced)
        for seconds in REPLACED_SECONDS:
            yield Row(f"{seconds:g} s in the middle replaced by other audio", "partial", self._replaced(seconds))
        yield Row("two issued files joined", "partial", self._joined)
        yield Row("as it was issued, registry not asked", "signed", lambda clip, _, path: _copy(clip.path, path), False)
        yield Row("manifest stripped, registry not asked", "unknown", lambda c, _, path: _write(path, c.marked), False)
        yield Row("mark of a long message, mostly cut off", "unreadable", self._unreadable)
        yield Row("signed by somebody, never marked", "unmarked", self._foreign)
        yield Row("neither marked nor signed", "none", lambda clip, other, path: _write(path, clip.original))

    def _attacked(self, name: str, strengths: dict[str, float]) -> Callable[[Issued, Issued, Path], None]:
        return lambda clip, other, path: _write(path, catalogue.run(name, clip.marked, SAMPLE_RATE, **strengths))

    def _cut(self, clip: Issued, other: Issued, path: Path) -> None:
        start = int(np.random.default_rng(clip.id).integers(len(clip.marked) - CUT_SECONDS * SAMPLE_RATE))
        _write(path, clip.marked[start : start + CUT_SECONDS * SAMPLE_RATE])

    def _changed(self, clip: Issued, other: Issued, path: Path) -> None:
        content = bytearray(clip.path.read_bytes())
        content[content.find(b"data") + 8 + len(clip.marked)] ^= 1
        path.write_bytes(content)

    def _misfiled(self, clip: Issued, other: Issued, path: Path) -> None:
        _write(path, clip.marked)
        content = other.path.read_bytes()
        sidecar_of(path).write_bytes(content[content.find(b"jumb") - 4 :])

    def _transplanted(self, clip: Issued, other: Issued, path: Path) -> None:
        _write(path, transplant(self._marker.network, clip.marked, other.original))

    def _transplanted_from_mp3(self, clip: Issued, other: Issued, path: Path) -> None:
        heard = catalogue.run("mp3", clip.marked, SAMPLE_RATE, kbps=128)
        _write(path, transplant(self._marker.network, heard, other.original))

    def _difference(self, clip: Issued, other: Issued, path: Path) -> None:
        length = min(len(clip.marked), len(other.original))
        _write(path, other.original[:length] + (clip.marked - clip.original)[:length])

    def _half_replaced(self, clip: Issued, other: Issued, path: Path) -> None:
        half = len(clip.marked) // 2
        _write(path, np.concatenate([clip.marked[:half], other.original[:half]]))

    def _replaced(self, seconds: float) -> Callable[[Issued, Issued, Path], None]:
        def replace(clip: Issued, other: Issued, path: Path) -> None:
            count = round(seconds * SAMPLE_RATE)
            start = (len(clip.marked) - count) // 2
            samples = clip.marked.copy()
            samples[start : start + count] = other.original[:count]
            _write(path, samples)

        return replace

    def _joined(self, clip: Issued, other: Issued, path: Path) -> None:
        _write(path, np.concatenate([clip.marked, other.marked]))

    def _unreadable(self, clip: Issued, other: Issued, path: Path) -> None:
        long = self._marker.embed(np.tile(clip.original, 6), SAMPLE_RATE, "x" * LONG_MESSAGE_LETTERS)
        _write(path, long[: LONG_MESSAGE_SECONDS * SAMPLE_RATE])

    def _foreign(self, clip: Issued, other: Issued, path: Path) -> None:
        plain = path.with_name("plain.wav")
        _write(plain, clip.original)
        with path.open("wb+") as signed:
            sign_file(plain, signed, Claim(clip.id, "recorded"), self._signer)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of clips")
    parser.add_argument("--clips", type=int, default=16, help="how many are issued")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results go")
    arguments = parser.parse_args()
    marker, rows = ideaw.load(threads=1), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        authority = make_test_authority(folder / "authority")
        signer = ideaw.Signer(authority.chain, authority.key)
        with Registry(f"sqlite:///{folder / 'registry.db'}") as registry:
            issued = issue_clips(arguments.folder, arguments.clips, folder, registry, marker, signer)
            for number, row in enumerate(Forge(marker, signer).rows()):
                statuses = Counter(verdicts(row, issued, folder / str(number), registry, marker))
                rows.append({"label": row.label, "expected": row.expected, "statuses": dict(statuses)})
                print(f"{row.label}: {statuses[row.expected]} of {statuses.total()} {row.expected}, {dict(statuses)}")
    if arguments.json:
        result = {"version": ideaw.__version__, "clips": len(issued), "rows": rows}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def issue_clips(
    source: Path, count: int, folder: Path, registry: Registry, marker: ideaw.Marker, signer: ideaw.Signer
) -> list[Issued]:
    """Clips of all kinds in turn, each with credentials of its own."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(source.glob("*-*.flac")):
        kinds.setdefault(path.name.partition("-")[0], []).append(path)
    turns = [path for group in zip(*kinds.values(), strict=False) for path in group][:count]
    issued = []
    for path in turns:
        original, target = sf.read(path)[0], folder / f"{path.stem}.wav"
        _write(folder / "original.wav", original)
        credential = ideaw.issue_file(
            folder / "original.wav", target, registry=registry, signer=signer, marker=marker, origin="recorded"
        )
        issued.append(Issued(original, sf.read(target)[0], target, credential.record.id))
    return issued


def verdicts(
    row: Row, issued: list[Issued], folder: Path, registry: Registry, marker: ideaw.Marker
) -> Iterator[VerdictStatus]:
    """The verdict on each clip with the one after it."""
    folder.mkdir()
    for number, clip in enumerate(issued):
        path = folder / f"{number}.wav"
        row.make(clip, issued[(number + 1) % len(issued)], path)
        yield ideaw.verify_file(path, registry=registry if row.registry else None, marker=marker).status


def _write(path: Path, samples: Audio) -> None:
    sf.write(path, samples.clip(-1, 1), SAMPLE_RATE, subtype="PCM_16")


def _copy(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())


if __name__ == "__main__":
    main()
