"""Fingerprints: same recordings that are missed, others that are taken for the same, and Chromaprint beside them.

    python benchmarks/fingerprint.py --clips DIR [--pairs DIR] --json docs/results/fingerprint.json

A recording is two clips of DIR of one kind (the name's part before "-", or the folder), one behind the other, marked;
its fingerprint is that of the marked file. Found audio is a cut of it from anywhere after an edit. `--pairs` is a
folder of other clips, of which 3 s of each are searched in all others; the thresholds were set on such. Chromaprint is
that of the program ffmpeg, and other takes are spoken by espeak-ng; each is left out where it is missing.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

import ideaw
from ideaw.attacks.catalogue import run
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.bench.corpus import audio_kind, is_loud, list_audio_files, read_network_mono
from ideaw.errors import IdeawError
from ideaw.provenance.fingerprint import compare, fingerprint
from ideaw.provenance.matching import PIECE_FRAMES, SEARCHED_SCORE, search_pieces
from ideaw.provenance.prints import read_prints

Samples = NDArray[np.float64]
Edited = dict[tuple[str, int], Samples]
"""Name of an edit and number of a recording → the whole recording after it."""

FOUND_SECONDS = (3, 5, 10)
REPLACED_SECONDS = (1, 2, 3, 4)
PAIR_SECONDS = 9
SHARED_CORRELATION, CHECKED_SCORE = 0.9, 0.22
"""Correlation of waveforms that are one, and score from which on they are looked at."""

NOISE_DB = 20.0


def _noise(samples: Samples) -> Samples:
    return run("noise", samples, SAMPLE_RATE, snr=NOISE_DB)


def _narrow(samples: Samples) -> Samples:
    """Through 8 kHz and back."""
    return run("resample", samples, SAMPLE_RATE, ratio=0.5)


EDITS: dict[str, Callable[[Samples], Samples]] = {
    "none": lambda samples: samples,
    "MP3 64 kbit/s": lambda samples: run("mp3", samples, SAMPLE_RATE),
    "noise, 20 dB": _noise,
    "resampled to 8 kHz": _narrow,
    "12 dB softer": lambda samples: samples / 4,
    "Opus 16 kbit/s": lambda samples: run("voip", samples, SAMPLE_RATE),
    "noise, softer, 8 kHz, MP3": lambda samples: run("mp3", _narrow(_noise(samples) / 4), SAMPLE_RATE),
}
UNMARKED = "without its mark"
HARDEST = "noise, softer, 8 kHz, MP3"
SPEEDS = (0.95, 0.98, 0.99, 0.995, 1.005, 1.01, 1.02, 1.05)

SENTENCE = "The registry keeps a fingerprint of every recording, so that a copied mark is noticed."
VOICES = ("en", "en-us", "en+f3", "en-gb-scotland+m5")
TAKES = tuple((voice, speed, pitch) for voice in VOICES for speed, pitch in ((160, 50), (175, 50), (160, 70)))
"""Voice, words a minute and pitch of espeak-ng."""


@dataclass(frozen=True)
class Recording:
    """A marked recording."""

    kind: str
    clips: frozenset[int]
    plain: Samples
    marked: Samples
    prints: bytes


@dataclass(frozen=True)
class Rate:
    """Cuts of one length and kind after an edit."""

    edit: str
    kind: str
    seconds: int
    cuts: int
    missed: int
    """Of which not all is taken for the recording."""
    denied: int
    """Of which nothing is."""


@dataclass(frozen=True)
class Others:
    """Audio that is not the recording."""

    what: str
    kind: str
    seconds: float
    pairs: int
    taken: int
    """Of which anything was taken for the recording."""
    highest: float


def recordings(paths: Sequence[Path]) -> list[Recording]:
    """Each clip with the next one of its kind."""
    marker, rng, made = ideaw.load(threads=1), np.random.default_rng(0), []
    clips = {path: read_network_mono(path).astype(np.float64) for path in paths}
    for kind in sorted({audio_kind(path) for path in paths}):
        names = [path for path in paths if audio_kind(path) == kind and is_loud(clips[path])]
        for place, first in enumerate(names):
            second = names[(place + 1) % len(names)]
            plain = np.concatenate([clips[first], clips[second]])
            marked = marker.embed(plain, SAMPLE_RATE, rng.bytes(4))
            both = frozenset((paths.index(first), paths.index(second)))
            made.append(Recording(kind, both, plain, marked, fingerprint(marked, SAMPLE_RATE)))
    return made


def equal_error(same: Sequence[float], other: Sequence[float]) -> float:
    """The share of errors at the threshold at which both kinds are equally frequent."""
    thresholds = np.unique(np.concatenate([same, other]))
    missed = np.searchsorted(np.sort(same), thresholds) / len(same)
    taken = 1 - np.searchsorted(np.sort(other), thresholds) / len(other)
    return float(np.maximum(missed, taken).min())


def edit_all(made: Sequence[Recording]) -> Edited:
    """Every recording after every edit, and without its mark."""
    edited = {(name, index): edit(one.marked) for index, one in enumerate(made) for name, edit in EDITS.items()}
    return edited | {(UNMARKED, index): one.plain for index, one in enumerate(made)}


def measure_cuts(made: Sequence[Recording], edited: Edited, rng: np.random.Generator) -> dict[str, Any]:
    """Cuts after all edits in their own recordings and in all others, ours and Chromaprint."""
    rates: list[Rate] = []
    others: list[Others] = []
    errors: list[dict[str, Any]] = []
    chromaprint = shutil.which("ffmpeg") is not None
    chroma = [chromaprints(recording.marked) for recording in made] if chromaprint else []
    for seconds in FOUND_SECONDS:
        size = seconds * SAMPLE_RATE
        starts = [int(rng.integers(0, len(one.marked) - size + 1)) for one in made]
        cuts = {place: whole[starts[place[1]] :][:size] for place, whole in edited.items()}
        prints = {place: fingerprint(cut, SAMPLE_RATE) for place, cut in cuts.items()}
        for kind in sorted({recording.kind for recording in made}):
            own = [index for index, recording in enumerate(made) if recording.kind == kind]
            same: list[float] = []
            for name in (UNMARKED, *EDITS):
                answers = [compare(made[index].prints, prints[name, index]) for index in own]
                denied = sum(not answer.seconds for answer in answers)
                missed = sum(not answer.agrees for answer in answers)
                rates.append(Rate(name, kind, seconds, len(own), missed, denied))
                same += [answer.score for answer in answers]
            pairs = [
                (one, index) for one in range(len(made)) for index in own if not made[one].clips & made[index].clips
            ]
            answers = [compare(made[one].prints, prints[HARDEST, index]) for one, index in pairs]
            scores = [answer.score for answer in answers]
            taken = sum(bool(answer.seconds) for answer in answers)
            others.append(Others("another recording", kind, seconds, len(pairs), taken, max(scores)))
            line = {"kind": kind, "seconds": seconds, "same": len(same), "other": len(pairs)}
            line["equal_error"] = equal_error(same, scores)
            if chroma:
                found = {index: chromaprints(cuts[HARDEST, index]) for index in own}
                clean = {index: chromaprints(cuts["none", index]) for index in own}
                wrong = [chroma_score(chroma[one], found[index]) for one, index in pairs]
                for name, ones in (("hardest", found), ("clean", clean)):
                    right = [chroma_score(chroma[index], ones[index]) for index in own]
                    line[f"chromaprint_{name}"] = equal_error(right, wrong)
                ours = [compare(made[index].prints, prints[HARDEST, index]).score for index in own]
                line["equal_error_hardest"] = equal_error(ours, scores)
            errors.append(line)
        print(f"{seconds} s", *(asdict(row) for row in others[-2:]), *errors[-2:], sep="\n", flush=True)
    return {"rates": [asdict(row) for row in rates], "others": [asdict(row) for row in others], "errors": errors}


def measure_speeds(made: Sequence[Recording]) -> list[dict[str, Any]]:
    """Cuts of 5 s that are played faster or slower, as they are and with their speed undone."""
    rows = []
    for speed in SPEEDS:
        raw = undone = 0
        for recording in made:
            played = run("speed", recording.marked, SAMPLE_RATE, factor=speed)[-5 * SAMPLE_RATE :]
            raw += compare(recording.prints, fingerprint(played, SAMPLE_RATE)).agrees
            undone += compare(recording.prints, fingerprint(played, SAMPLE_RATE / speed)).agrees
        rows.append({"speed": speed, "cuts": len(made), "agree": raw, "agree_undone": undone})
    return rows


def measure_replaced(made: Sequence[Recording], edited: Edited, rng: np.random.Generator) -> dict[str, Any]:
    """Whole recordings of which a stretch is replaced by another recording, and whole ones that are not."""
    rows, whole = [], []
    for seconds in REPLACED_SECONDS:
        size, partial, borders = seconds * SAMPLE_RATE, 0, []
        for index, recording in enumerate(made):
            other = made[(index + len(made) // 2) % len(made)].marked
            start = int(rng.integers(2 * SAMPLE_RATE, min(len(recording.marked), len(other)) - size - 2 * SAMPLE_RATE))
            joined = recording.marked.copy()
            joined[start : start + size] = other[start : start + size]
            answer = compare(recording.prints, fingerprint(run("mp3", joined, SAMPLE_RATE), SAMPLE_RATE))
            if not answer.agrees and answer.seconds:
                partial += 1
            if len(answer.seconds) == 2:
                (_, end), (again, _) = answer.seconds
                borders += [abs(end - start / SAMPLE_RATE), abs(again - (start + size) / SAMPLE_RATE)]
        rows.append({"seconds": seconds, "files": len(made), "in_part": partial, "border": median(borders or [0.0])})
    for name in EDITS:
        prints = [fingerprint(edited[name, index], SAMPLE_RATE) for index in range(len(made))]
        agree = sum(compare(one.prints, found).agrees for one, found in zip(made, prints, strict=True))
        whole.append({"edit": name, "files": len(made), "agree": agree})
    return {"replaced": rows, "whole": whole}


def measure_passages(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The first and the second half of each clip."""
    rows = []
    for kind in sorted({audio_kind(path) for path in paths}):
        answers = []
        for path in (path for path in paths if audio_kind(path) == kind):
            clip = read_network_mono(path)
            half = len(clip) // 2
            answers.append(compare(*(fingerprint(part, SAMPLE_RATE) for part in (clip[:half], clip[half:]))))
        taken, highest = sum(bool(answer.seconds) for answer in answers), max(answer.score for answer in answers)
        rows.append(asdict(Others("the other half of the same clip", kind, 3.5, len(answers), taken, highest)))
    return rows


def measure_takes() -> list[dict[str, Any]]:
    """One sentence in several voices, speeds and pitches, each against every other."""
    if shutil.which("espeak-ng") is None:
        return []
    prints = []
    with tempfile.TemporaryDirectory() as folder:
        for voice, speed, pitch in TAKES:
            path = Path(folder) / "take.wav"
            words = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "-w", str(path), SENTENCE]
            subprocess.run(words, check=True)
            samples, rate = soundfile.read(path)
            prints.append(fingerprint(samples, rate))
    answers = [compare(one, other) for one, other in permutations(prints, 2)]
    taken, highest = sum(bool(answer.seconds) for answer in answers), max(answer.score for answer in answers)
    return [asdict(Others("another take of the sentence", "speech", 5.0, len(answers), taken, highest))]


def measure_transplants(made: Sequence[Recording]) -> list[dict[str, Any]]:
    """What embedding added to one recording, added to another one."""
    answers = []
    for index, recording in enumerate(made):
        other = made[(index + len(made) // 2) % len(made)].plain
        length = min(len(other), len(recording.plain))
        moved = other[:length] + (recording.marked - recording.plain)[:length]
        answers.append(compare(recording.prints, fingerprint(moved, SAMPLE_RATE)))
    taken, highest = sum(bool(answer.seconds) for answer in answers), max(answer.score for answer in answers)
    return [asdict(Others("its mark on another recording", "both", 14.0, len(answers), taken, highest))]


def measure_pairs(data: Path) -> dict[str, Any]:
    """The best score of 3 s of every clip in every other clip."""
    clips = [
        clip for path in list_audio_files(data) if len(clip := read_network_mono(path)) >= PAIR_SECONDS * SAMPLE_RATE
    ]
    prints = [read_prints(fingerprint(clip, SAMPLE_RATE)) for clip in clips]
    signs = np.concatenate([sign[PIECE_FRAMES : 2 * PIECE_FRAMES] for sign, _ in prints])
    starts = [index * PIECE_FRAMES for index in range(len(prints))]
    table = np.stack([search_pieces(record, signs, starts, PIECE_FRAMES)[0] for record in prints])
    others = ~np.eye(len(clips), dtype=bool)
    shared = [(a, b) for a, b in np.argwhere(others & (table >= CHECKED_SCORE)) if share_waveform(clips[a], clips[b])]
    for place in shared:
        others[tuple(place)] = False
    scores = table[others]
    shares = {f"one in {count:,}": float(np.quantile(scores, 1 - 1 / count)) for count in (100, 1_000, 10_000, 100_000)}
    return {
        "clips": len(clips),
        "pairs": len(scores),
        "shared": len(shared),
        "hours": sum(map(len, clips)) / SAMPLE_RATE / 3600,
        "scores": shares,
        "highest": float(scores.max()),
        "above_threshold": int((scores >= SEARCHED_SCORE).sum()),
        "threshold": SEARCHED_SCORE,
    }


def share_waveform(one: Samples, other: Samples) -> bool:
    """Whether 0.8 s of one clip lie in another, sample by sample: then they are of one recording."""
    size, length = int(0.8 * SAMPLE_RATE), 1 << (len(one) + len(other)).bit_length()
    energy = np.concatenate([[0.0], np.cumsum(np.square(one, dtype=np.float64))])
    energy = energy[size:] - energy[:-size] + 1e-9
    spectrum, highest = np.fft.rfft(one, length), 0.0
    for start in range(0, len(other) - size, size // 2):
        piece = other[start : start + size]
        sums = np.fft.irfft(spectrum * np.conj(np.fft.rfft(piece, length)), length)[: len(energy)]
        highest = max(highest, float((sums / np.sqrt(energy * (np.square(piece).sum() + 1e-9))).max()))
    return highest >= SHARED_CORRELATION


def measure_cost(made: Sequence[Recording]) -> dict[str, float]:
    """Bytes and CPU time of a second of audio, and of comparing two minutes of other audio."""
    audio = np.concatenate([recording.marked for recording in made])[: 600 * SAMPLE_RATE]
    begin = time.process_time()
    whole = fingerprint(audio, SAMPLE_RATE)
    spent, seconds = time.process_time() - begin, len(audio) / SAMPLE_RATE
    half = len(audio) // 2
    one, other = (fingerprint(part, SAMPLE_RATE) for part in (audio[:half], audio[half:]))
    begin = time.process_time()
    compare(one, other)
    return {
        "bytes_per_second": len(whole) / seconds,
        "cpu_ms_per_second": 1000 * spent / seconds,
        "compared_seconds": half / SAMPLE_RATE,
        "compare_cpu_seconds": time.process_time() - begin,
    }


def chromaprints(samples: Samples) -> NDArray[np.float32]:
    """(items, 32) bits of Chromaprint as -1 and 1."""
    words = ["ffmpeg", "-v", "error", "-f", "f32le", "-ar", str(SAMPLE_RATE), "-ac", "1", "-i", "-"]
    words += ["-f", "chromaprint", "-fp_format", "raw", "-"]
    done = subprocess.run(words, input=samples.astype(np.float32).tobytes(), capture_output=True, check=True)
    items = np.frombuffer(done.stdout, np.uint8).reshape(-1, 4)
    return 2 * np.unpackbits(items, axis=1).astype(np.float32) - 1


def chroma_score(recorded: NDArray[np.float32], found: NDArray[np.float32]) -> float:
    """The correlation of found items with the recording where it is largest; 0 where there are none."""
    count = len(recorded) - len(found) + 1
    if not len(found) or count < 1:
        return 0.0
    return max(float((recorded[at : at + len(found)] * found).mean()) for at in range(count))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=Path, required=True)
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--limit", type=int, help="clips at most")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    paths, rng = list_audio_files(options.clips, options.limit), np.random.default_rng(1)
    made = recordings(paths)
    content: dict[str, Any] = {"clips": len(paths), "recordings": len(made), "cost": measure_cost(made)}
    edited = edit_all(made)
    content |= measure_cuts(made, edited, rng)
    content["others"] += measure_passages(paths) + measure_takes() + measure_transplants(made)
    content["speeds"] = measure_speeds(made)
    content |= measure_replaced(made, edited, rng)
    if options.pairs:
        content["pairs"] = measure_pairs(options.pairs)
    text = json.dumps(content, indent=1) + "\n"
    if options.json:
        options.json.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    try:
        main()
    except IdeawError as problem:
        raise SystemExit(f"fingerprint.py: {problem}") from problem
