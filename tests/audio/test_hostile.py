"""Files that lie, and names that lead elsewhere: nothing is believed, nothing waits, nothing is written."""

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from ideaw.audio import tags
from ideaw.audio.formats import EXTENSIONS
from ideaw.audio.read import read_audio
from ideaw.audio.write import check_distinct, check_place, write_audio
from ideaw.errors import FileError


def wave(claims: int, channels: int = 1, rate: int = 16_000, samples: bytes = bytes(32_000)) -> bytes:
    """A WAV file of 16 bits whose header claims so many bytes."""
    layout = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * 2 % 2**32, channels * 2 % 2**16, 16)
    head = b"RIFF" + struct.pack("<I", claims) + b"WAVEfmt " + struct.pack("<I", len(layout)) + layout
    return head + b"data" + struct.pack("<I", claims) + samples


def sun(channels: int, rate: int = 16_000) -> bytes:
    return b".snd" + struct.pack(">IIIII", 24, 0xFFFF_FFFF, 3, rate, channels) + bytes(200_000)


LIES = {
    "a.wav claims 1 GB": (wave(1 << 30), "truncated"),
    "b.wav has 65535 channels": (wave(32_000, 65_535), "damaged"),
    "c.wav has 1024 channels": (wave(2_048_000, 1_024, samples=bytes(2_048_000)), "claims 1024 channels; at most 16"),
    "d.wav has 4 GHz": (wave(32_000, rate=4_000_000_000), "damaged"),
    "e.wav has 2 GHz": (wave(32_000, rate=2_000_000_000), "claims a rate of 2000000000 Hz"),
    "f.wav has 0 Hz": (wave(32_000, rate=0), "damaged"),
    "g.au has 10 million channels": (sun(10_000_000), "damaged"),
    "h.au has 17 channels": (sun(17), "claims 17 channels"),
    "i.mp3 has a tag of 256 MB": (b"ID3\4\0\0\x7f\x7f\x7f\x7f" + bytes(9_999), "no MP3 frames"),
    "j.mp3 is all ones": (b"\xff" * 1_000_000, "no MP3 frames"),
    "k.sds prints to stdout": (b"\xf0\x7e\0\1" + bytes(9_999), "sample dump"),
    "l.aac is a playlist": (b"ffconcat version 1.0\nfile secret.m4a\n", "damaged, truncated or of an unknown format"),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_a_header_claims_is_not_believed(tmp_path: Path, lie: str, capfd: pytest.CaptureFixture[str]) -> None:
    content, line = LIES[lie]
    path = tmp_path / lie.split()[0]
    path.write_bytes(content)
    write_audio(tmp_path / "secret.m4a", np.zeros((16_000, 1)), 16_000)
    with pytest.raises(FileError, match=line) as caught:
        read_audio(path)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().out == ""


def test_a_wave_that_claims_4_gb_is_as_long_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wave(0xFFFF_FFF0))
    assert read_audio(tmp_path / "a.wav").samples.shape == (16_000, 1)


def test_a_flac_that_claims_days_is_truncated(tmp_path: Path, speech: np.ndarray) -> None:
    write_audio(tmp_path / "a.flac", speech[:, None], 16_000)
    data = bytearray((tmp_path / "a.flac").read_bytes())
    length = int.from_bytes(data[18:26], "big")
    data[18:26] = (length | (1 << 36) - 1).to_bytes(8, "big")
    (tmp_path / "a.flac").write_bytes(data)
    with pytest.raises(FileError, match="truncated"):
        read_audio(tmp_path / "a.flac")


def test_a_huge_tag_is_not_held(tmp_path: Path, speech: np.ndarray) -> None:
    write_audio(tmp_path / "a.mp3", speech[:, None], 16_000)
    frames = (tmp_path / "a.mp3").read_bytes()
    with (tmp_path / "a.mp3").open("wb") as file:
        file.write(b"ID3\4\0\0\x20\0\0\0")
        assert file.seek(tags.id3_length(b"ID3\4\0\0\x20\0\0\0")) > 64 << 20  # a hole in the file
        file.write(frames)
    with pytest.raises(FileError, match="tag of 64 MiB; at most 32 MiB"):
        read_audio(tmp_path / "a.mp3")


def test_one_sample_is_one_sample(tmp_path: Path) -> None:
    for extension in (".wav", ".flac", ".aiff", ".mp3", ".ogg", ".m4a"):
        write_audio(tmp_path / f"a{extension}", np.array([[0.5]]), 16_000)
        assert read_audio(tmp_path / f"a{extension}").samples.shape == (1, 1)


@pytest.mark.parametrize("extension", [*EXTENSIONS, ".aac", ".raw", ".gsm", ".sd2", ""])
def test_an_extension_may_lie(tmp_path: Path, speech: np.ndarray, extension: str) -> None:
    for container in ("WAV", "FLAC", "AIFF", "AU", "RF64", "W64"):
        sf.write(tmp_path / f"a{extension}", speech, 16_000, format=container, subtype="PCM_16")
        recording = read_audio(tmp_path / f"a{extension}")
        assert recording.encoding.container == container
        assert recording.samples.shape == (len(speech), 1)


@pytest.mark.parametrize("extension", [*EXTENSIONS, ".aac", ".raw", ".gsm", ".vox", ".sd2", ""])
def test_noise_is_not_audio_under_any_name(tmp_path: Path, extension: str) -> None:
    for seed in range(3):
        (tmp_path / f"a{extension}").write_bytes(np.random.default_rng(seed).bytes(20_000))
        with pytest.raises(FileError, match=r"format|frames"):
            read_audio(tmp_path / f"a{extension}")


# Names


def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.wav")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket.wav"))
    for name in (tmp_path / "pipe.wav", tmp_path / "socket.wav", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(FileError, match="is a pipe or a device"):
            read_audio(name)
    for name in ("pipe.wav", "socket.wav"):
        with pytest.raises(FileError, match="not a plain file"):
            write_audio(tmp_path / name, np.zeros((9, 1)), 16_000)
    assert sorted(os.listdir(tmp_path)) == ["pipe.wav", "socket.wav"]


def test_names_that_lead_nowhere_get_one_line(tmp_path: Path) -> None:
    (tmp_path / "loop.wav").symlink_to("loop.wav")
    (tmp_path / "file").touch()
    for name, line in {
        "loop.wav": "symbolic links",
        "x" * 300 + ".wav": "name too long",
        "null\0.wav": "null",
        "file/a.wav": "not a directory",
    }.items():
        with pytest.raises(FileError, match=line):
            read_audio(tmp_path / name)
        with pytest.raises(FileError, match=line):
            check_place(tmp_path / name)
        check_distinct(tmp_path / name, tmp_path / "other.wav")
        check_distinct(tmp_path / "other.wav", tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["file", "loop.wav"]


NAMES = [
    "-m.{}",
    "a b\n\t.{}",
    "ä̈日本🎵.{}",
    os.fsdecode(b"\xff\xfe.{}"),
    "http:a.{}",
    "%d$(x)`*?.{}",
    "é" * 120 + ".{}",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_any_name_will_do(tmp_path: Path, speech: np.ndarray, name: str) -> None:
    for extension in ("wav", "flac", "mp3", "ogg", "m4a"):
        path = tmp_path / name.format(extension)
        write_audio(path, speech[:, None], 16_000)
        assert read_audio(path).samples.shape == (len(speech), 1)
    assert len(os.listdir(tmp_path)) == 5


@pytest.mark.slow
def test_a_name_in_the_folder_one_is_in(tmp_path: Path) -> None:
    script = (
        "import numpy as np\n"
        "from ideaw.audio.read import read_audio\n"
        "from ideaw.audio.write import write_audio\n"
        "for name in ('-.wav', 'concat:a.m4a', 'pipe:1.m4a'):\n"
        "    write_audio(name, np.zeros((9, 1)), 8000)\n"
        "    print(len(read_audio(name).samples))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "9\n9\n9\n"
