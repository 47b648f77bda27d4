"""Files in blocks: the same as a whole, in the memory of one block, and never half of them in place."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile as sf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ideaw.audio import atomic, mpeg, tags, write
from ideaw.audio.blocks import SampleBuffer, regroup, split_blocks, with_progress
from ideaw.audio.formats import Encoding
from ideaw.audio.read import open_audio, read_audio
from ideaw.audio.write import check_format, create_audio, write_audio
from ideaw.errors import FileError

RATE = 48_000
FORMATS = ["wav", "flac", "mp3", "ogg", "opus", "aiff", "au", "w64", "rf64", "m4a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, music: np.ndarray) -> Path:
    """A file of each format, and the MP3 that libsndfile measures wrongly: varying, with a tag but no index."""
    folder = tmp_path_factory.mktemp("blocks")
    for extension in FORMATS:
        write_audio(folder / f"a.{extension}", music[:150_001], RATE, Encoding("", "", tags={"title": "Tänze"}))
    (folder / "bare.mp3").write_bytes(tags.encode_id3({"title": "Tänze"}) + without_index(music))
    with av.open(str(folder / "a.webm"), "w") as container:
        stream = container.add_stream("libopus", rate=RATE, layout="stereo")
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(music[:96_000].T), format="fltp", layout="stereo")
        frame.sample_rate = RATE
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return folder


def without_index(music: np.ndarray) -> bytes:
    coded = io.BytesIO()
    sf.write(coded, music, 44_100, format="MP3", bitrate_mode="VARIABLE", compression_level=0.5)
    stream = mpeg.scan(coded)
    assert stream is not None
    assert stream.variable
    assert stream.has_xing
    data = coded.getvalue()
    return data[data.index(b"\xff\xfb", stream.start + 4) :]


# Pieces


@st.composite
def pieces(draw: st.DrawFn) -> list[np.ndarray]:
    """Numbered samples (n, 2), in pieces of any length."""
    lengths = draw(st.lists(st.integers(0, 30), max_size=12))
    return np.split(np.arange(2 * sum(lengths)).reshape(-1, 2), np.cumsum(lengths)[:-1]) if lengths else []


@given(pieces(), st.integers(1, 40))
def test_pieces_of_any_length_become_equal_blocks(given_pieces: list[np.ndarray], size: int) -> None:
    made = list(regroup(given_pieces, size))
    samples = np.concatenate([*given_pieces, np.empty((0, 2), int)])
    assert [len(block) for block in made] == [len(block) for block in split_blocks(samples, size)]
    assert np.array_equal(np.concatenate([*made, np.empty((0, 2), int)]), samples)
    assert not any(np.shares_memory(block, piece) for block in made for piece in given_pieces)


def test_a_piece_may_be_overwritten_once_it_was_given() -> None:
    def overwritten() -> Iterator[np.ndarray]:
        piece = np.empty((3, 1))
        for start in range(0, 12, 3):
            piece[:, 0] = range(start, start + 3)
            yield piece
            piece[:] = -1

    assert np.array_equal(np.concatenate(list(regroup(overwritten(), 7)))[:, 0], np.arange(12))


@given(pieces(), st.lists(st.tuples(st.sampled_from(["pop", "drop", "get"]), st.integers(-5, 60)), max_size=20))
def test_a_buffer_gives_what_a_list_of_all_samples_gives(
    given_pieces: list[np.ndarray], calls: list[tuple[str, int]]
) -> None:
    buffer, samples, start = SampleBuffer(2, start=-3), np.empty((0, 2)), -3
    views: list[tuple[np.ndarray, np.ndarray]] = []
    for number in range(max(len(given_pieces), len(calls))):
        if number < len(given_pieces):
            buffer.append(given_pieces[number])
            samples = np.concatenate([samples, given_pieces[number]])
        end = len(samples) - 3
        call, count = calls[number] if number < len(calls) else ("get", end)
        if call == "pop":
            stop = min(start + max(count, 0), end)
            views.append((buffer.pop(max(count, 0)), samples[start + 3 : stop + 3]))
            start = stop
        elif call == "drop":
            buffer.drop_before(count)
            start = min(max(start, count), end)
        else:
            views.append((buffer.get(count, end + 9), samples[max(start, count) + 3 :]))
        assert (buffer.start, buffer.end, len(buffer)) == (start, end, end - start)
    for view, expected in views:  # as they were when they were asked for
        assert view.shape == expected.shape
        assert np.array_equal(view, expected)


def test_a_buffer_takes_the_shape_and_type_of_what_comes() -> None:
    buffer = SampleBuffer()
    assert buffer.pop(3).shape == (0,)
    buffer.append(np.arange(5, dtype=np.int16))
    assert buffer.get(0, 9).dtype == np.int16
    buffer.append(np.full(2, 0.5))
    assert buffer.pop(7).tolist() == [0, 1, 2, 3, 4, 0.5, 0.5]
    with pytest.raises(ValueError, match="do not continue"):
        buffer.append(np.zeros((4, 1)))


def test_a_buffer_holds_little_more_than_it_is_asked_to_keep() -> None:
    buffer = SampleBuffer()
    for _ in range(2_000):
        buffer.append(np.zeros((100, 2)))
        buffer.drop_before(buffer.end - 1_000)
    assert len(buffer) == 1_000
    assert buffer.get(0, buffer.end).base.size <= 2 * 2 * 1_100


def test_progress_is_told_after_each_block_and_never_beyond_the_whole() -> None:
    shares: list[float] = []
    blocks = with_progress([np.zeros(3), np.zeros(3), np.zeros(9)], 12, shares.append)
    for expected in ([], [0.25], [0.25, 0.5]):
        next(blocks)
        assert shares == expected
    assert list(blocks) == []
    assert shares == [0.25, 0.5, 1]
    assert len(list(with_progress([np.zeros(3)] * 2, None, shares.append))) == 2
    assert len(list(with_progress([np.zeros(3)] * 2, 6, None))) == 2
    assert len(shares) == 3


# Reading


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(f"a.{extension}" for extension in FORMATS), "bare.mp3", "a.webm"])
def test_blocks_are_the_whole_file_whatever_their_size(folder: Path, name: str) -> None:
    whole = read_audio(folder / name)
    for size in (1, 997, 65_536, 10_000_000) if name == "a.wav" else (997, 65_536, 100_000, 10_000_000):
        with open_audio(folder / name) as source:
            blocks = list(source.blocks(size))
        assert {len(block) for block in blocks[:-1]} <= {size}
        assert 0 < len(blocks[-1]) <= size
        assert all(block.dtype == np.float64 and block.flags.c_contiguous for block in blocks)
        assert np.array_equal(np.concatenate(blocks), whole.samples)
        assert (source.rate, source.channels, source.encoding) == (whole.rate, 2, whole.encoding)
        assert source.num_samples in (None, len(whole.samples))


@pytest.mark.slow
def test_a_varying_mp3_without_an_index_is_spliced_exactly(folder: Path, tmp_path: Path) -> None:
    """What libsndfile sees is the file with an index put in; made here as a real file, and read the plain way."""
    data = (folder / "bare.mp3").read_bytes()
    stream = mpeg.scan(io.BytesIO(data))
    assert stream is not None
    head = data[: tags.id3_length(data)]
    (tmp_path / "a.mp3").write_bytes(head + stream.xing_frame() + data[stream.start :])
    assert np.array_equal(read_audio(folder / "bare.mp3").samples, sf.read(tmp_path / "a.mp3")[0])
    assert read_audio(folder / "bare.mp3").encoding.id3 == head


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 70_000), st.integers(0, 2**32 - 1))
def test_frames_are_found_wherever_pieces_of_the_file_end(garbage: bytes, zeros: int, seed: int) -> None:
    assume(not garbage.startswith(b"ID3"))  # that is no garbage but a tag, which says how far to skip
    header = b"\xff\xfb\x90\x00"  # MPEG-1, 128 kbit/s, 44.1 kHz: 417 bytes
    frames = int(np.random.default_rng(seed).integers(2, 300))
    opening = garbage.replace(b"\xff", b"\0") + b"\0" * zeros
    stream = mpeg.scan(io.BytesIO(opening + header.ljust(417, b"\0") * frames))
    assert stream is not None
    assert (stream.start, stream.num_frames, stream.bitrate) == (len(opening), frames, 128)


@pytest.mark.slow
def test_a_flac_of_unknown_length_is_read_to_its_end(folder: Path, tmp_path: Path) -> None:
    length = int.from_bytes((data := bytearray((folder / "a.flac").read_bytes()))[18:26], "big")
    data[18:26] = (length >> 36 << 36).to_bytes(8, "big")  # as an encoder that writes to a pipe leaves it
    (tmp_path / "a.flac").write_bytes(data)
    with open_audio(tmp_path / "a.flac") as source:
        assert source.num_samples is None
        assert sum(len(block) for block in source.blocks()) == 150_001


def test_a_cut_that_only_the_end_shows_is_told_there(folder: Path, tmp_path: Path) -> None:
    data = (folder / "a.flac").read_bytes()
    (tmp_path / "a.flac").write_bytes(data[: len(data) // 2])
    with open_audio(tmp_path / "a.flac") as source:
        blocks = source.blocks(4096)
        assert len(next(blocks)) == 4096
        with pytest.raises(FileError, match="truncated"):
            list(blocks)


def test_what_goes_wrong_while_reading_is_not_taken_for_the_file(folder: Path) -> None:
    for name in ("a.wav", "a.m4a"):
        with pytest.raises(ValueError, match="our own"), open_audio(folder / name):
            raise ValueError("our own")


# Writing


@pytest.mark.parametrize("extension", FORMATS)
def test_a_file_written_in_blocks_is_the_one_written_at_once(tmp_path: Path, music: np.ndarray, extension: str) -> None:
    encoding = Encoding("", "", tags={"title": "Tänze"})
    samples = music[:100_001].astype(np.float64)
    write_audio(tmp_path / f"a.{extension}", samples, RATE, encoding)
    with create_audio(tmp_path / f"b.{extension}", RATE, 2, encoding) as write:
        for start in range(0, len(samples), 7_777):
            write(samples[start : start + 7_777])
    once, in_blocks = (read_audio(tmp_path / f"{name}.{extension}") for name in "ab")
    assert np.array_equal(once.samples, in_blocks.samples)
    assert once.encoding == in_blocks.encoding


def test_the_tag_of_an_mp3_moves_all_of_it_up(tmp_path: Path, music: np.ndarray) -> None:
    write_audio(tmp_path / "a.mp3", music[:50_000], 44_100)
    head = tags.encode_id3({"comment": "x" * 100_000})
    write_audio(tmp_path / "b.mp3", music[:50_000], 44_100, Encoding("MP3", "MPEG_LAYER_III", 192, id3=head))
    assert (tmp_path / "b.mp3").read_bytes() == head + (tmp_path / "a.mp3").read_bytes()


@pytest.mark.parametrize("length", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2_500_000])
@pytest.mark.parametrize("head", [0, 1, 3_000, 3_000_000])
def test_what_is_put_before_a_file_overwrites_nothing(tmp_path: Path, length: int, head: int) -> None:
    content, before = (np.random.default_rng(length).bytes(size) for size in (length, head))
    (tmp_path / "a").write_bytes(content)
    atomic.prepend(tmp_path / "a", before)
    assert (tmp_path / "a").read_bytes() == before + content


@pytest.mark.parametrize("extension", FORMATS)
@pytest.mark.parametrize("problem", [KeyboardInterrupt, MemoryError, FileError, OSError])
def test_nothing_happens_unless_all_goes_well(
    tmp_path: Path, music: np.ndarray, extension: str, problem: type[BaseException]
) -> None:
    target = tmp_path / f"a.{extension}"
    target.write_bytes(b"what was here before")

    def blocks() -> Iterator[np.ndarray]:
        yield music[:100_000]
        raise problem("our own")

    with pytest.raises(problem, match="our own"), create_audio(target, RATE, 2) as write:
        list(map(write, blocks()))
    assert os.listdir(tmp_path) == [target.name]
    assert target.read_bytes() == b"what was here before"


def test_a_killed_process_leaves_nothing(tmp_path: Path, music: np.ndarray) -> None:
    script = (
        "import os, signal, sys, numpy as np\n"
        "from ideaw.audio.write import create_audio\n"
        "with create_audio(sys.argv[1], 16_000, 1) as write:\n"
        "    write(np.zeros((99_999, 1)))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    target = tmp_path / "a.flac"
    target.write_bytes(b"what was here before")
    subprocess.run([sys.executable, "-c", script, str(target)], check=False)
    assert target.read_bytes() == b"what was here before"
    assert os.listdir(tmp_path) == ["a.flac"]  # what was being written had no name
    write_audio(target, music, 44_100)
    assert len(read_audio(target).samples) == len(music)
    assert os.listdir(tmp_path) == ["a.flac"]


def test_what_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    hour = 3600 * 44_100
    check_format(tmp_path / "a.wav", 44_100, 2, None, 100 * hour)  # RF64
    check_format(tmp_path / "a.aiff", 44_100, 2, None, 6 * hour)
    for name, arguments, line in [
        ("a.aiff", (44_100, 2, None, 7 * hour), "beyond the 4 GiB"),
        ("a.mp3", (96_000, 2), "cannot hold 96000 Hz"),
        ("a.m4a", (16_000, 7), "cannot hold 7 channels"),
        ("a.xyz", (16_000, 1), "unknown type"),
        ("missing/a.wav", (16_000, 1), "make it first"),
        (".", (16_000, 1), "without an extension"),
    ]:
        with pytest.raises(FileError, match=line), create_audio(tmp_path / name, *arguments):
            raise AssertionError("nothing may begin")
    assert os.listdir(tmp_path) == []


def test_a_wave_that_grows_beyond_4_gib_unannounced_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "MAX_DATA_BYTES", 1_000_000)
    with pytest.raises(FileError, match="beyond the 4 GiB"), create_audio(tmp_path / "a.wav", 44_100, 1) as append:
        append(np.zeros((500_000, 1)))
    assert os.listdir(tmp_path) == []


def test_blocks_must_fit(tmp_path: Path) -> None:
    for block in (np.zeros(9), np.zeros((9, 1)), np.zeros((2, 9))):
        with (
            pytest.raises(FileError, match="cannot be written"),
            create_audio(tmp_path / "a.wav", RATE, 2) as write,
        ):
            write(block)
    with pytest.raises(FileError, match="no samples"), create_audio(tmp_path / "a.wav", RATE, 2):
        pass
    assert os.listdir(tmp_path) == []


# An hour


HOUR = """
import io, json, sys
import numpy as np, soundfile as sf
from importlib import resources
from ideaw.audio.read import open_audio
from ideaw.audio.write import create_audio, write_audio

def peak():  # in MB; getrusage would count the process that started this one too
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024

target, minutes = sys.argv[1], int(sys.argv[2])
tile = sf.read(io.BytesIO(resources.files("ideaw").joinpath("samples", "speech.flac").read_bytes()))[0][:, None]
write_audio(target, tile, 16_000)
before = peak()
with create_audio(target, 16_000, 1, num_samples=minutes * 10 * len(tile)) as write:
    for _ in range(minutes * 10):
        write(tile)
with open_audio(target) as source:
    power = sum(float(np.vdot(block, block)) for block in source.blocks())
print(json.dumps([source.num_samples, power / (minutes * 10) / float(np.vdot(tile, tile)), peak() - before]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("extension", ["wav", "flac"])
def test_an_hour_takes_the_memory_of_a_minute(tmp_path: Path, extension: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOUR, str(tmp_path / f"a.{extension}"), "60"],
        capture_output=True,
        text=True,
        check=True,
    )
    frames, power, megabytes = json.loads(done.stdout)
    assert frames == 60 * 60 * 16_000
    assert power == pytest.approx(1)
    assert megabytes < 30  # as float64 the hour is 460 MB
