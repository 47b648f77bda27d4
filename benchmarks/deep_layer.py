"""What the deep layer survives, what it costs the ear, and how often it speaks where nothing is.

    python benchmarks/deep_layer.py rates FOLDER [--kind speech] [--lyra WEIGHTS] [--pairs 12] [--json FILE]
    python benchmarks/deep_layer.py edits FOLDER …
    python benchmarks/deep_layer.py quality FOLDER …
    python benchmarks/deep_layer.py alarms FOLDER …
    python benchmarks/deep_layer.py frontier FOLDER --lyra WEIGHTS …
    python benchmarks/deep_layer.py security FOLDER …
    python benchmarks/deep_layer.py costs FOLDER …
    python benchmarks/deep_layer.py streams FOLDER …
    python benchmarks/deep_layer.py messages FOLDER …
    python benchmarks/deep_layer.py stereo FOLDER_OF_FULL_RATE_FILES …

FOLDER holds clips named KIND-NUMBER; two that follow each other are joined, so that pieces are 10 to 16 s long. Every
piece gets a random key and a message, of two bytes where nothing else is said, in both layers. A row is skipped, with
a line, where a package or the weights of a codec are missing. With --json, what was measured is kept after every row;
with --resume too, attacks of rates and edits that are in that file already are not measured again.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.attacks import catalogue
from ideaw.attacks.resynthesis import resyntheses
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.bench.cache import write_text
from ideaw.bench.corpus import list_audio_files
from ideaw.deep import gains
from ideaw.deep.bands import HALF_WINDOW_SAMPLES, NUM_MEL_BANDS, analyse, synthesise
from ideaw.deep.decode import fold
from ideaw.deep.embedder import TILE_SAMPLES, DeepEmbedder, DeepSettings, choose_start
from ideaw.deep.loudness import EvidenceStream
from ideaw.deep.signs import PERIOD_CELLS, TILE_CELLS, KeyPattern
from ideaw.deep.words import KINDS_OF_BYTES, Word
from ideaw.errors import IdeawError
from ideaw.payload.message import Message
from ideaw.quality.fidelity import pesq, visqol
from ideaw.quality.modulation import modulation_audibility

Audio = NDArray[np.floating]

MAX_WORLD_PIECES = 4
"""WORLD takes longer than the audio lasts."""

CUTS_SECONDS = {"none": (8, 5, 3), "Lyra 6": (8, 5), "GSM": (8, 5), "Opus 8 voip": (8, 5)}
"""Rows that are measured again on pieces of so many seconds, at three places each."""


skipped: dict[str, str] = {}
"""Row → why it was not measured."""


def skip(name: str, problem: object) -> None:
    """Say that a row is not measured, and why."""
    skipped[name] = str(problem)
    print(f"{name}: skipped: {problem}")


@dataclass(frozen=True)
class Piece:
    """A marked piece."""

    original: Audio
    marked: Audio
    key: ideaw.Key
    message: bytes


def read_clips(folder: Path, kind: str, count: int) -> list[Audio]:
    """The last `count` clips of a kind."""
    paths = sorted(folder.glob(f"{kind}-*.flac"))
    return [soundfile.read(path)[0] for path in paths[len(paths) % 2 :][-count:]]


def pieces(folder: Path, kind: str, pairs: int) -> list[Audio]:
    """The last `pairs` pairs of clips of a kind, joined."""
    clips = read_clips(folder, kind, 2 * pairs)
    return [np.concatenate(clips[index : index + 2])[: 16 * SAMPLE_RATE] for index in range(0, len(clips), 2)]


def mark(originals: list[Audio], layers: str = "fast,deep", num_bytes: int = 2) -> list[Piece]:
    """Every piece with a key and a message of its own."""
    rng, marked = np.random.default_rng(22), []
    for original in originals:
        key, message = ideaw.Key(rng.bytes(16)), rng.bytes(num_bytes)
        marker = ideaw.load(key=key, threads=1)
        marked.append(Piece(original, marker.embed(original, SAMPLE_RATE, message, layers=layers), key, message))
    return marked


def attacks(lyra: Path | None) -> dict[str, Callable[[Audio], Audio]]:
    """The rows of `rates`."""

    def listed(name: str, **strengths: float | str) -> Callable[[Audio], Audio]:
        return lambda audio: catalogue.run(name, audio, SAMPLE_RATE, 1, **strengths)

    def noise(decibel: float) -> Callable[[Audio], Audio]:
        return lambda audio: audio + np.random.default_rng(1).normal(0, audio.std() * 10 ** (-decibel / 20), len(audio))

    rows: dict[str, Callable[[Audio], Audio]] = {"none": lambda audio: audio}
    rows |= resyntheses(lyra)
    rows |= {f"MP3 {kbps}": listed("mp3", kbps=kbps) for kbps in (32, 24, 16)}
    rows |= {"reverberation": listed("reverb"), "EQ": listed("equalise", most=8.0), "compressor": listed("compress")}
    rows["speech over music at equal level"] = listed("background", snr=0.0)
    rows["music at equal level"] = _with_music
    return rows | {"noise 20 dB": noise(20), "noise 10 dB": noise(10), "noise 5 dB": noise(5)}


def _with_music(audio: Audio) -> Audio:
    """The packaged music added, as loud as the audio is."""
    with resources.files("ideaw").joinpath("samples", "music.ogg").open("rb") as file:
        samples, rate = soundfile.read(file, always_2d=True)
    music = np.resize(soxr.resample(samples.mean(1), rate, SAMPLE_RATE), len(audio))
    return audio + music * (audio.std() / music.std())


def edits() -> dict[str, Callable[[Audio], Audio]]:
    """The rows of `edits`: other speeds, tempos and pitches, splices and pauses."""

    def speed(factor: float) -> Callable[[Audio], Audio]:
        return lambda audio: soxr.resample(audio, SAMPLE_RATE * factor, SAMPLE_RATE)

    def listed(name: str, **strengths: float | str) -> Callable[[Audio], Audio]:
        return lambda audio: catalogue.run(name, audio, SAMPLE_RATE, 1, **strengths)

    second = SAMPLE_RATE
    rows: dict[str, Callable[[Audio], Audio]] = {f"speed {v:g}": speed(v) for v in (0.8, 0.95, 1.01, 1.05, 1.25)}
    rows |= {f"tempo {v:g}": listed("tempo", factor=v) for v in (0.8, 0.95, 1.05, 1.25)}
    rows |= {f"pitch {s:+g} semitones": listed("pitch", cents=100 * s) for s in (-2.0, -1.0, 1.0, 2.0)}
    rows["a second cut out"] = lambda audio: np.delete(audio, slice(len(audio) // 2, len(audio) // 2 + second))
    rows["a pause of 2.3 s put in"] = lambda audio: np.insert(audio, np.full(int(2.3 * second), len(audio) // 2), 0)
    rows["two pieces of 5 s exchanged"] = lambda audio: np.concatenate(
        [audio[5 * second : 10 * second], audio[: 5 * second], audio[10 * second :]]
    )
    return rows


def measure(marked: list[Piece], rows: dict[str, Callable[[Audio], Audio]], speeds: str) -> Iterator[dict[str, Any]]:
    """A row for every attack, and for every length that it is cut to."""
    for name, attack in rows.items():
        try:
            attacked = [attack(piece.marked) for piece in (marked[:MAX_WORLD_PIECES] if name == "WORLD" else marked)]
        except IdeawError as problem:
            skip(name, problem)
            continue
        for seconds in (None, *(CUTS_SECONDS.get(name, ()) if speeds == "none" else ())):
            heard = [
                (piece, part)
                for piece, audio in zip(marked, attacked, strict=False)
                for part in (_parts(audio, seconds) if seconds else [audio])
            ]
            yield {"attack": name, "seconds": seconds} | _rates(heard, speeds)


def _parts(audio: Audio, seconds: int) -> list[Audio]:
    length = seconds * SAMPLE_RATE
    return [audio[start : start + length] for start in np.linspace(0, max(len(audio) - length, 0), 5, dtype=int)[1:4]]


def _rates(heard: list[tuple[Piece, Audio]], speeds: str) -> dict[str, Any]:
    """Shares of the pieces in which each question is answered."""
    counts: dict[str, list[float]] = {
        "present": [],
        "exact": [],
        "wrong": [],
        "given": [],
        "log10_p": [],
        "network": [],
    }
    for piece, audio in heard:
        marker = ideaw.load(key=piece.key, threads=1)
        audio = np.asarray(audio, np.float32)
        deep = marker.detect(audio, SAMPLE_RATE, layers="deep", speeds=speeds)
        given = marker.detect(audio, SAMPLE_RATE, layers="deep", speeds=speeds, expected=[piece.message])
        counts["present"].append(deep.status != "none")
        counts["exact"].append(deep.message == piece.message)
        counts["wrong"].append(deep.found and deep.message != piece.message)
        counts["given"].append(given.message == piece.message)
        counts["log10_p"].append(float(np.log10(max(deep.p_value, 1e-300))))
        network = marker.detect(audio, SAMPLE_RATE, speeds="none", layers="fast") if speeds == "none" else None
        counts["network"].append(network is not None and network.message == piece.message)
    rates = {name: float(np.sum(values)) for name, values in counts.items() if name != "log10_p"}
    median = float(np.median(counts["log10_p"]))
    return {"trials": len(heard)} | rates | {"median_log10_p": median, "worst_log10_p": float(max(counts["log10_p"]))}


def quality(originals: list[Audio]) -> Iterator[dict[str, Any]]:
    """What measures of quality say about each layer and both, of single clips: PESQ loses its way where two meet."""
    for layers in ("deep", "fast,deep", "fast"):
        made = mark(originals, layers)
        heard = [modulation_audibility(piece.original, piece.marked) for piece in made]
        scores = {
            "pesq": [pesq(piece.original, piece.marked) for piece in made],
            "visqol": [visqol(piece.original, piece.marked) for piece in made],
        }
        yield {
            "layers": layers,
            "trials": len(made),
            **{f"{name}_mean": float(np.nanmean(values)) for name, values in scores.items()},
            **{f"{name}_lowest": float(np.nanmin(values)) for name, values in scores.items()},
            **{f"{name}_values": [round(value, 3) for value in values] for name, values in scores.items()},
            "modulation_percentile_99": float(max(each.percentile_99 for each in heard)),
            "modulation_worst": float(max(each.worst for each in heard)),
        }


def alarms(originals: list[Audio], keys: int) -> Iterator[dict[str, Any]]:
    """How small p-values get in audio that holds no mark of the key, or somebody else's: a bound must not be below."""
    rng = np.random.default_rng(7)
    for name, made in (
        ("unmarked", originals),
        ("marked with another key", [p.marked for p in mark(originals, "deep")]),
    ):
        for speeds in ("none", "near"):
            values = []
            for audio in made:
                for _ in range(keys if speeds == "none" else max(1, keys // 20)):
                    marker = ideaw.load(key=ideaw.Key(rng.bytes(16)), threads=1)
                    expected = [rng.bytes(2) for _ in range(3)]
                    found = marker.detect(audio, SAMPLE_RATE, layers="deep", speeds=speeds, expected=expected)
                    values.append(found.p_value)
            below = {f"share_below_{level:g}": float(np.mean(np.array(values) < level)) for level in (0.1, 0.01, 0.001)}
            yield {"audio": name, "speeds": speeds, "trials": len(values), "least_p": float(min(values)), **below}


def frontier(originals: list[Audio], lyra: Path | None) -> Iterator[dict[str, Any]]:
    """Rates against the largest gain of a tile."""
    rows, rng = attacks(lyra), np.random.default_rng(22)
    names = [name for name in ("Lyra 6", "Lyra 3.2", "GSM", "Opus 8 voip", "noise 10 dB") if name in rows]
    for largest in (1.0, 1.5, 2.25, 3.25):
        gains.MAX_GAIN_DB = largest
        made = [_deep_only(original, ideaw.Key(rng.bytes(16)), rng.bytes(2)) for original in originals]
        pairs = [(piece.original[: 8 * SAMPLE_RATE], piece.marked[: 8 * SAMPLE_RATE]) for piece in made]
        heard = [(piece, rows[name](piece.marked)) for name in names for piece in made]
        score = float(np.mean([visqol(*pair) for pair in pairs]))
        yield {"max_gain_db": largest, "visqol_mean": score, "rows": names} | _rates(heard, "none")


def costs(originals: list[Audio]) -> Iterator[dict[str, Any]]:
    """CPU time for each second of audio at 16 kHz, in one process: of a piece, and of a minute of them."""
    marker = ideaw.load(threads=1)
    minute = np.concatenate([*originals] * 4)[: 60 * SAMPLE_RATE]
    for length, audio in (("a piece", originals[0]), ("a minute", minute)):
        milliseconds = 1000 * SAMPLE_RATE / len(audio)
        mark_deep, mark_fast = (
            partial(marker.embed, audio, SAMPLE_RATE, "hi", layers=name) for name in ("deep", "fast")
        )
        jobs: dict[str, Callable[[], object]] = {"mark, deep": mark_deep, "mark, fast": mark_fast}
        for layers in ("fast", "fast,deep") if length == "a piece" else ():
            jobs[f"mark as a stream, {layers.replace(',', ' and ')}"] = partial(_mark_stream, marker, audio, layers)
        for speeds in ("none", "near", "all"):
            searched = partial(marker.detect, audio, SAMPLE_RATE, layers="deep", speeds=speeds)
            jobs[f"search, deep, speeds {speeds}"] = searched
        for job, run in jobs.items():
            run()
            times = []
            for _ in range(3):
                begun = time.process_time()
                run()
                times.append(time.process_time() - begun)
            yield {"audio": length, "job": job, "seconds": len(audio) / SAMPLE_RATE, "ms": min(times) * milliseconds}


def _mark_stream(marker: ideaw.Marker, audio: Audio, layers: str) -> None:
    """Mark audio in blocks of 20 ms, as it would come live."""
    size = SAMPLE_RATE // 50
    blocks = (audio[start : start + size] for start in range(0, len(audio), size))
    for _ in marker.embed_stream(blocks, SAMPLE_RATE, "hi", layers=layers):
        pass


def streams(originals: list[Audio], lyra: Path | None) -> Iterator[dict[str, Any]]:
    """What it costs not to choose where periods begin, as in a stream."""
    rng, rows = np.random.default_rng(22), attacks(lyra)
    keys = [(ideaw.Key(rng.bytes(16)), rng.bytes(2)) for _ in originals]
    for start in ("chosen from the whole", "not chosen"):
        made = []
        for original, (key, message) in zip(originals, keys, strict=True):
            pattern, word = KeyPattern(key), Word.of(Message(message), key)
            place = choose_start(pattern, word, [original[:, None]], SAMPLE_RATE) if start != "not chosen" else 0
            made.append(Piece(original, _marked_from(original, pattern, word, place), key, message))
        for name in ("none", "Lyra 6", "GSM"):
            if name not in rows:
                continue
            try:
                heard = [(piece, rows[name](piece.marked)) for piece in made]
            except IdeawError as problem:
                skip(name, problem)
                continue
            yield {"attack": f"{name}, start {start}"} | _rates(heard, "none")


def messages(originals: list[Audio], lyra: Path | None) -> Iterator[dict[str, Any]]:
    """Messages of two, three and four bytes in twelve seconds."""
    rows, twelve = attacks(lyra), [piece[: 12 * SAMPLE_RATE] for piece in originals if len(piece) >= 12 * SAMPLE_RATE]
    for name in ("none", "MP3 16", "Lyra 6", "GSM", "Opus 8 voip", "noise 10 dB"):
        if name in rows:
            for num_bytes in KINDS_OF_BYTES:
                heard = [(piece, rows[name](piece.marked)) for piece in mark(twelve, num_bytes=num_bytes)]
                yield {"attack": f"{name}, {num_bytes} bytes"} | _rates(heard, "none")


def stereo(folder: Path, lyra: Path | None, limit: int) -> Iterator[dict[str, Any]]:
    """Stereo and full-rate files: their channels apart and mixed, MP3, and codecs of their mix."""
    rng, made = np.random.default_rng(22), []
    for path in list_audio_files(folder, limit):
        samples, rate = soundfile.read(path, always_2d=True)
        key, message = ideaw.Key(rng.bytes(16)), rng.bytes(2)
        marked = ideaw.load(key=key, threads=1).embed(samples[: 15 * rate], rate, message, layers="fast,deep")
        made.append((rate, Piece(samples, marked, key, message)))

    def at_16k(audio: Audio, rate: int) -> Audio:
        return soxr.resample(audio.mean(1) if audio.ndim == 2 else audio, rate, SAMPLE_RATE)

    ways: dict[str, Callable[[Audio, int], Audio]] = {
        "mix": lambda audio, rate: at_16k(audio, rate),
        "first channel": lambda audio, rate: at_16k(audio[:, 0], rate),
        "last channel": lambda audio, rate: at_16k(audio[:, -1], rate),
        "MP3 64, mix": lambda audio, rate: at_16k(catalogue.run("mp3", audio, rate, 1), rate),
    }
    ways |= {
        f"mix, {name}": lambda audio, rate, attack=attack: attack(at_16k(audio, rate))
        for name, attack in resyntheses(lyra).items()
        if name != "WORLD"
    }
    for name, way in ways.items():
        try:
            heard = [(piece, way(piece.marked, rate)) for rate, piece in made]
        except IdeawError as problem:
            skip(name, problem)
            continue
        yield {"attack": name} | _rates(heard, "none")


def security(originals: list[Audio]) -> Iterator[dict[str, Any]]:
    """What somebody with the software and without the key can do to a deep mark."""
    made, rng = mark(originals, "deep"), np.random.default_rng(5)

    def random_gains(audio: Audio) -> Audio:
        return _with_gains(audio, rng.choice([-1.0, 1.0], (len(audio) // TILE_SAMPLES + 1, NUM_MEL_BANDS)) * 1.5)

    def overwritten(times: int) -> Callable[[Audio], Audio]:
        def attack(audio: Audio) -> Audio:
            for _ in range(times):
                other = ideaw.load(key=ideaw.Key(rng.bytes(16)), threads=1)
                audio = other.embed(audio, SAMPLE_RATE, rng.bytes(2), layers="deep")
            return audio

        return attack

    def erased(audio: Audio) -> Audio:
        return _with_gains(audio, -2 * np.sign(_folded([audio])))

    yield {"attack": "none"} | _rates([(piece, piece.marked) for piece in made], "none")
    yield {"attack": "random gains of 1.5 dB"} | _rates([(piece, random_gains(piece.marked)) for piece in made], "none")
    for times in (1, 2, 3):
        rates = _rates([(piece, overwritten(times)(piece.marked)) for piece in made], "none")
        yield {"attack": f"marked again, {times} times"} | rates
    yield {"attack": "erased by the mean over its periods"} | _rates([(p, erased(p.marked)) for p in made], "none")
    copied = [(piece, _with_gains(host, 1.5 * np.sign(_folded([piece.marked])))) for piece, host in _others(made)]
    yield {"attack": "transplanted from one piece"} | _rates(copied, "none")
    # One key and one message in all pieces, each with a start of its own, which the attacker is given.
    key, message = ideaw.Key(rng.bytes(16)), rng.bytes(2)
    pattern, word = KeyPattern(key), Word.of(Message(message), key)
    many = [_marked_from(original, pattern, word, 0) for original in originals]
    learned = np.sign(_folded(many))
    truth = pattern.modulate(word.symbols(pattern))
    agree = {str(n): float((np.sign(_folded(many[:n])) == truth).mean()) for n in (1, len(many))}
    copied = [(Piece(host, host, key, message), _with_gains(host, 1.5 * learned)) for host in originals]
    cleaned = [(Piece(host, host, key, message), _with_gains(host, -2 * learned)) for host in many]
    yield {"attack": "erased with what all pieces tell", "signs_right": agree} | _rates(cleaned, "none")
    yield {"attack": "transplanted from all pieces", "signs_right": agree} | _rates(copied, "none")


def _others(made: list[Piece]) -> Iterator[tuple[Piece, Audio]]:
    """Every marked piece with the unmarked audio of the next."""
    for index, piece in enumerate(made):
        yield piece, made[(index + 1) % len(made)].original


def _folded(audios: list[Audio]) -> NDArray[np.float32]:
    """(96, NUM_MEL_BANDS) evidence of audio, added up over periods and pieces, without any key."""
    total = np.zeros((PERIOD_CELLS, NUM_MEL_BANDS), np.float32)
    for audio in audios:
        stream = EvidenceStream()
        for chunk in (*stream.push(audio[:, None]), *stream.finish()):
            total += fold(chunk.evidence, chunk.start)
    return total[TILE_CELLS // 2 :: TILE_CELLS]


def _with_gains(audio: Audio, gains_db: NDArray[np.floating]) -> Audio:
    """Audio with gains (tiles, bands) in dB, repeated to its end."""
    tiles = len(audio) // TILE_SAMPLES + 1
    padded = np.pad(audio, (HALF_WINDOW_SAMPLES, tiles * TILE_SAMPLES + HALF_WINDOW_SAMPLES - len(audio)))
    spectra = analyse(padded.astype(np.float32))[: tiles * TILE_CELLS]
    course = gains.tile_course(gains_db[np.arange(tiles) % len(gains_db)].astype(np.float32))
    change = synthesise(spectra * (gains.bin_gains(course) - 1))
    return audio + change[HALF_WINDOW_SAMPLES : HALF_WINDOW_SAMPLES + len(audio)]


def _deep_only(original: Audio, key: ideaw.Key, message: bytes) -> Piece:
    pattern, word = KeyPattern(key), Word.of(Message(message), key)
    start = choose_start(pattern, word, [original[:, None]], SAMPLE_RATE)
    return Piece(original, _marked_from(original, pattern, word, start), key, message)


def _marked_from(original: Audio, pattern: KeyPattern, word: Word, start: int) -> Audio:
    embedder = DeepEmbedder(pattern, word, DeepSettings(SAMPLE_RATE, 1, 0.0), start)
    return np.concatenate([embedder.push(original), embedder.finish()])


def read_whole_attacks(path: Path) -> list[dict[str, Any]]:
    """The rows that a file holds of attacks that were measured at all of their lengths."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    last = rows[-1]["attack"] if rows else None
    lengths = 1 + len(CUTS_SECONDS.get(str(last), ()))
    whole = sum(row["attack"] == last for row in rows) == lengths
    return [row for row in rows if whole or row["attack"] != last]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what",
        choices=[
            "rates",
            "edits",
            "quality",
            "alarms",
            "frontier",
            "security",
            "costs",
            "streams",
            "messages",
            "stereo",
        ],
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", default="speech")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--keys", type=int, default=100, help="keys for each piece, of alarms")
    parser.add_argument("--lyra", type=Path, help="folder of Lyra's weights; without it its rows are skipped")
    parser.add_argument("--only", help="of rates and edits, the rows whose name holds this")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true", help="go on in the file of --json, of rates and edits")
    arguments = parser.parse_args()
    if arguments.what == "stereo":
        arguments.kind = "stereo"
    originals = [] if arguments.what == "stereo" else pieces(arguments.folder, arguments.kind, arguments.pairs)
    if arguments.lyra is None and arguments.what in ("rates", "frontier", "streams", "messages", "stereo"):
        skip("Lyra", "give the folder of its weights with --lyra")

    rows = read_whole_attacks(arguments.json) if arguments.resume and arguments.json is not None else []
    done = {row["attack"] for row in rows}

    def chosen(rows: dict[str, Callable[[Audio], Audio]]) -> dict[str, Callable[[Audio], Audio]]:
        wanted = {name: row for name, row in rows.items() if not arguments.only or arguments.only in name}
        return {name: row for name, row in wanted.items() if name not in done}

    found = {
        "rates": lambda: measure(mark(originals), chosen(attacks(arguments.lyra)), "none"),
        "edits": lambda: measure(mark(originals), chosen(edits()), "all"),
        "quality": lambda: quality(read_clips(arguments.folder, arguments.kind, 2 * arguments.pairs)),
        "alarms": lambda: alarms(originals, arguments.keys),
        "frontier": lambda: frontier(originals, arguments.lyra),
        "security": lambda: security(originals),
        "costs": lambda: costs(originals),
        "streams": lambda: streams(originals, arguments.lyra),
        "messages": lambda: messages(originals, arguments.lyra),
        "stereo": lambda: stereo(arguments.folder, arguments.lyra, 2 * arguments.pairs),
    }[arguments.what]()
    begun = time.process_time()
    for row in found:
        rows.append(row)
        print(json.dumps(row), flush=True)
        if arguments.json is not None:
            kept = {"what": arguments.what, "kind": arguments.kind, "pieces": len(originals), "skipped": skipped}
            kept["rows"] = rows
            write_text(arguments.json, json.dumps(kept, indent=1) + "\n")
    print(f"{time.process_time() - begun:.0f} s of CPU")


if __name__ == "__main__":
    main()
