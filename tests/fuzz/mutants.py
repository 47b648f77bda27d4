"""Audio files of every format, and the ways in which files break; the same ones for the same seed."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
import soundfile as sf

from ideaw.audio import mpeg
from ideaw.audio.formats import EXTENSIONS, Encoding
from ideaw.audio.write import write_audio

RATE = 48_000


def originals(folder: Path, music: np.ndarray) -> dict[str, bytes]:
    """Sound files by name: all that can be written, and what else is likely to be read."""
    samples = music[: RATE + 999].astype(np.float64)
    tags = Encoding("", "", tags={"title": "Ungarischer Tanz", "artist": "Brahms"})
    for extension in EXTENSIONS:
        write_audio(folder / f"plain{extension}", samples, RATE, tags)
    for subtype in ("FLOAT", "DOUBLE", "PCM_24", "IMA_ADPCM", "MS_ADPCM", "ULAW"):
        sf.write(folder / f"{subtype}.wav", samples, RATE, subtype=subtype)
    sf.write(folder / "plain.caf", samples, RATE)
    sf.write(folder / "varying.mp3", samples, RATE, bitrate_mode="VARIABLE", compression_level=0.5)
    bare = (folder / "varying.mp3").read_bytes()
    first = mpeg.scan(io.BytesIO(bare))
    assert first is not None
    (folder / "bare.mp3").write_bytes(bare[bare.index(b"\xff\xfb", first.start + 4) :])
    for name, codec in (("plain.webm", "libopus"), ("plain.aac", "aac"), ("plain.mka", "aac")):
        with av.open(str(folder / name), "w") as container:
            stream = container.add_stream(codec, rate=RATE, layout="stereo")
            rows = np.ascontiguousarray(samples.T, dtype=np.float32)
            frame = av.AudioFrame.from_ndarray(rows, format="fltp", layout="stereo")
            frame.sample_rate = RATE
            container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def mutants(originals: dict[str, bytes], count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """`count` broken files: name and content, each format and each way in turn."""
    rng = np.random.default_rng(seed)
    names = sorted(originals)
    for number in range(count):
        name = names[number % len(names)]
        break_it = WAYS[int(rng.integers(len(WAYS)))]
        suffix = Path(name).suffix
        if rng.random() < 0.1:
            suffix = str(rng.choice([*EXTENSIONS, ".aac", ".raw", ".xyz", ""]))
        content = break_it(bytearray(originals[name]), rng)
        yield f"{number:04d}-{break_it.__name__}-{Path(name).stem}{suffix}", bytes(content)


def cut(content: bytearray, rng: np.random.Generator) -> bytearray:
    return content[: int(rng.integers(len(content)))]


def flip_bits(content: bytearray, rng: np.random.Generator) -> bytearray:
    for place in rng.integers(len(content), size=int(rng.integers(1, 30))):
        content[place] ^= 1 << int(rng.integers(8))
    return content


def spoil_header(content: bytearray, rng: np.random.Generator) -> bytearray:
    for place in rng.integers(min(256, len(content)), size=int(rng.integers(1, 8))):
        content[place] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.integers(256)]))
    return content


def claim_much(content: bytearray, rng: np.random.Generator) -> bytearray:
    place = int(rng.integers(min(256, len(content) - 4)))
    claim = int(rng.choice([0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0xFFFF_FFF0]))
    content[place : place + 4] = claim.to_bytes(4, str(rng.choice(["big", "little"])))  # type: ignore[arg-type]
    return content


def replace_piece(content: bytearray, rng: np.random.Generator) -> bytearray:
    place = int(rng.integers(len(content)))
    content[place : place + int(rng.integers(1, 3_000))] = rng.bytes(int(rng.integers(3_000)))
    return content


def repeat_piece(content: bytearray, rng: np.random.Generator) -> bytearray:
    start, end = sorted(map(int, rng.integers(len(content), size=2)))
    return content[:end] + content[start:]


def noise(content: bytearray, rng: np.random.Generator) -> bytearray:
    kept = int(rng.integers(64))
    return content[:kept] + rng.bytes(int(rng.integers(20_000)))


WAYS: list[Callable[[bytearray, np.random.Generator], bytearray]] = [
    cut,
    flip_bits,
    spoil_header,
    claim_much,
    replace_piece,
    repeat_piece,
    noise,
]
