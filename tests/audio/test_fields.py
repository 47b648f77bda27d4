"""A named text beside the samples: in every container that has a place for one, and nothing else changes."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from ideaw.audio.containers.fields import add_field
from ideaw.audio.read import read_audio
from ideaw.audio.tags import encode_id3, id3_length, with_text_frame
from ideaw.errors import FileError

TEXT = '{"AIGC": {"Label": "1"}}'
RF64, WAV, EXTENSIBLE = ("RF64", "PCM_16"), ("WAV", "PCM_U8"), ("WAVEX", "PCM_24")


@pytest.mark.parametrize(("container", "subtype"), [RF64, WAV, EXTENSIBLE, ("AIFF", "PCM_S8"), ("FLAC", "PCM_16")])
def test_samples_stay_and_the_text_comes(
    tmp_path: Path, speech: NDArray[np.float32], container: str, subtype: str
) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    with sf.SoundFile(source, "w", 16_000, 1, subtype, format=container) as opened:
        opened.title = "Ein Titel"
        opened.write(speech[:16_001])  # an odd number of bytes in some
    add_field(source, target, "AIGC", TEXT, Path("song"))
    assert np.array_equal(read_audio(target).samples, read_audio(source).samples)
    assert read_audio(target).encoding.tags["title"] == "Ein Titel"
    assert TEXT.encode() in target.read_bytes()
    add_field(target, source, "AIGC", TEXT, Path("song"))  # chunks follow one another again
    assert np.array_equal(read_audio(source).samples, read_audio(target).samples)


def test_a_container_without_a_place_is_refused(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    sf.write(tmp_path / "in.au", speech, 16_000)
    with pytest.raises(FileError, match=r"^song\.au has no place for AIGC; use \.wav, \.flac"):
        add_field(tmp_path / "in.au", tmp_path / "out.au", "AIGC", TEXT, Path("song.au"))


@pytest.mark.parametrize("release", [2, 3, 4])
def test_an_id3_tag_of_any_version_keeps_its_frames(release: int) -> None:
    frame = {2: b"TT2\0\0\x03\0Hi", 3: b"TIT2\0\0\0\x03\0\0\0Hi", 4: b"TIT2\0\0\0\x03\0\0\0Hi"}[release]
    tag = b"ID3" + bytes([release, 0, 0, 0, 0, 0, len(frame)]) + frame
    longer = with_text_frame(tag, b"AIGC", TEXT.encode())
    assert longer is not None
    assert longer.endswith(frame)
    assert TEXT.encode() in longer
    assert id3_length(longer) == len(longer)
    assert with_text_frame(bytes([*tag[:5], 0x40, *tag[6:]]), b"AIGC", b"") is None
    assert with_text_frame(encode_id3({"title": "Hi"})[:3] + b"\x07" + bytes(6), b"AIGC", b"") is None


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_an_index_before_the_samples_of_mp4_may_grow(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    sf.write(tmp_path / "in.wav", speech, 16_000)
    quick = ["-c:a", "aac", "-movflags", "+faststart", tmp_path / "in.m4a"]
    subprocess.run(["ffmpeg", "-v", "error", "-i", tmp_path / "in.wav", *quick], check=True)
    add_field(tmp_path / "in.m4a", tmp_path / "out.m4a", "AIGC", TEXT, Path("song.m4a"))
    assert np.array_equal(read_audio(tmp_path / "out.m4a").samples, read_audio(tmp_path / "in.m4a").samples)
    asked = ["ffprobe", "-v", "warning", "-show_entries", "format_tags", tmp_path / "out.m4a"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert (f"TAG:AIGC={TEXT}" in told.stdout, told.stderr) == (True, "")
