"""Stereo clips of the tracks that an index names, from the Debian packages that they come from.

The evaluation's music is mono at 16 kHz, and `ideaw bench files` is about stereo at 44.1 kHz. An index has the columns
`file`, `category`, `source` (a package) and `speaker_or_track` (`package/folder_name`); of each stereo track of music
that its package still has, ten seconds from a third of it on are written under the name of `file`.

    python benchmarks/stereo_clips.py audio/eval/index.csv clips
"""

import argparse
import csv
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import soundfile
import soxr

CLIP_RATE_HZ, CLIP_SECONDS = 44_100, 10
"""Rate and length of the clips that are written."""

ARCHIVES = {".pk3", ".wz", ".zip"}
"""What games keep their music in."""

TRACK_EXTENSIONS = {".ogg", ".mp3", ".flac", ".wav", ".opus"}

RENAMED = {"0ad-x": "0ad-data"}
"""Sources that are packages of another name."""


def unpack(package: str, folder: Path) -> None:
    """Download a Debian package and unpack its files, and those in its archives, into a folder."""
    subprocess.run(["apt-get", "download", package], cwd=folder, check=True, capture_output=True)
    (deb,) = folder.glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", deb, folder], check=True)
    for path in list(folder.rglob("*")):
        if path.suffix in ARCHIVES and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(path.with_suffix(""))


def tracks(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every track, by the name that an index has for it."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in TRACK_EXTENSIONS:
            yield f"{path.parent.name}_{path.stem}", path


def cut(track: Path, target: Path) -> bool:
    """Write ten seconds of a stereo track; whether it has so many."""
    info = soundfile.info(track)
    if info.channels != 2 or info.duration < CLIP_SECONDS:
        return False
    first = int((info.duration - CLIP_SECONDS) / 3 * info.samplerate)
    samples, rate = soundfile.read(track, CLIP_SECONDS * info.samplerate, first, dtype="float32")
    soundfile.write(target, soxr.resample(samples, rate, CLIP_RATE_HZ), CLIP_RATE_HZ, "PCM_16")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("target", type=Path)
    given = parser.parse_args()
    given.target.mkdir(parents=True, exist_ok=True)
    with given.index.open() as lines:
        wanted = [row for row in csv.DictReader(lines) if row["category"] == "music"]
    for source in sorted({row["source"] for row in wanted}):
        with tempfile.TemporaryDirectory() as folder:
            try:
                unpack(RENAMED.get(source, source), Path(folder))
            except subprocess.CalledProcessError:
                print(f"{source}: no such package")
                continue
            by_name = dict(tracks(Path(folder)))
            for row in wanted:
                track = by_name.get(row["speaker_or_track"].partition("/")[2])
                if row["source"] == source:
                    made = track is not None and cut(track, given.target / row["file"])
                    print(f"{row['file']}: {row['speaker_or_track']}" + ("" if made else ", left out"), flush=True)


if __name__ == "__main__":
    main()
