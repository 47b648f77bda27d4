"""Files in and out: the same bits or bitrate, length and tags; whole or not at all; one line for every mistake."""

import io
import os
import stat
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile as sf
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ideaw.audio import formats, mpeg, tags
from ideaw.audio.formats import EXTENSIONS, Encoding, RateControl
from ideaw.audio.read import read_audio
from ideaw.audio.write import check_distinct, choose_encoding, write_audio
from ideaw.errors import FileError

PCM = [
    *[("wav", "WAV", subtype) for subtype in ("PCM_U8", "PCM_16", "PCM_24", "PCM_32")],
    ("wav", "WAVEX", "PCM_24"),
    ("wav", "RF64", "PCM_16"),
    *[("flac", "FLAC", subtype) for subtype in ("PCM_S8", "PCM_16", "PCM_24")],
    *[("aiff", "AIFF", subtype) for subtype in ("PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32")],
    ("au", "AU", "PCM_16"),
    ("w64", "W64", "PCM_24"),
]
LOSSY = ["mp3", "ogg", "opus", "m4a"]
TAGS = {
    "title": "Ungarischer Tanz Nr. 5, fis-Moll – „Allegro“",
    "artist": "United States Army Strings",
    "album": "Brahms",
    "date": "2011",
    "comment": "a comment",
    "genre": "Classical",
    "tracknumber": "5",
}


def delay(original: np.ndarray, copy: np.ndarray) -> int:
    """Samples by which `copy` lies after `original`, at the peak of their correlation."""
    size = 2 * len(original)
    spectrum = np.fft.rfft(original[:, 0], size).conj() * np.fft.rfft(copy[:, 0], size)
    peak = int(np.argmax(np.fft.irfft(spectrum)))
    return peak if peak < size // 2 else peak - size


def snr(original: np.ndarray, copy: np.ndarray) -> float:
    return float(10 * np.log10(np.sum(original**2) / np.sum((original - copy) ** 2)))


def no_leftovers(folder: Path, *names: str) -> bool:
    return sorted(os.listdir(folder)) == sorted(names)


# The same bits


@pytest.mark.parametrize(("extension", "container", "subtype"), PCM)
def test_pcm_of_every_width_comes_back_with_the_same_bits(
    tmp_path: Path, extension: str, container: str, subtype: str
) -> None:
    bits = int(subtype.removeprefix("PCM_").lstrip("SU"))
    steps = np.random.default_rng(bits).integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (70_001, 2))
    steps[:2] = [[-(2 ** (bits - 1))] * 2, [2 ** (bits - 1) - 1] * 2]
    source, copy = tmp_path / f"a.{extension}", tmp_path / f"b.{extension}"
    stored = (steps << (32 - bits)).astype(np.int32)
    sf.write(source, stored, 44_100, format=container, subtype=subtype)
    recording = read_audio(source)
    assert np.array_equal(recording.samples * 2.0 ** (bits - 1), steps)
    assert recording.encoding == Encoding(container, subtype)
    write_audio(copy, recording.samples, recording.rate, recording.encoding)
    assert np.array_equal(sf.read(copy, dtype="int32")[0], stored)
    assert read_audio(copy).encoding == recording.encoding


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
def test_floats_pass_through_beyond_full_scale(tmp_path: Path, speech: np.ndarray, subtype: str) -> None:
    loud = speech[:, None].astype(np.float64) * 7
    assert np.abs(loud).max() > 1
    write_audio(tmp_path / "a.wav", loud, 16_000, Encoding("WAV", subtype))
    recording = read_audio(tmp_path / "a.wav")
    assert np.array_equal(recording.samples, loud)
    assert recording.encoding.subtype == subtype


def test_pcm_saturates(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", np.array([[1.5], [1.0], [-1.0], [-9.0]]), 16_000, Encoding("WAV", "PCM_16"))
    assert sf.read(tmp_path / "a.wav", dtype="int16")[0].tolist() == [32767, 32767, -32768, -32768]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([".wav", ".flac", ".aiff", ".w64"]),
    st.integers(8_000, 192_000),
    st.integers(1, 8),
    st.integers(1, 3_000),
)
def test_lossless_files_of_any_rate_channels_and_length(
    tmp_path: Path, extension: str, rate: int, channels: int, length: int
) -> None:
    assume(extension != ".flac" or rate <= 0xFFFF or rate % 10 == 0)
    steps = np.random.default_rng(length).integers(-(2**15), 2**15, (length, channels))
    write_audio(tmp_path / f"a{extension}", steps / 2**15, rate)
    recording = read_audio(tmp_path / f"a{extension}")
    assert recording.rate == rate
    assert np.array_equal(recording.samples * 2**15, steps)


@pytest.mark.parametrize(
    ("subtype", "extension", "expected"),
    [
        ("PCM_16", ".flac", "PCM_16"),
        ("PCM_24", ".flac", "PCM_24"),
        ("FLOAT", ".flac", "PCM_24"),
        ("PCM_24", ".aiff", "PCM_24"),
        ("MPEG_LAYER_III", ".wav", "PCM_24"),
        ("MS_ADPCM", ".wav", "PCM_24"),
    ],
)
def test_another_container_keeps_the_width(
    tmp_path: Path, speech: np.ndarray, subtype: str, extension: str, expected: str
) -> None:
    write_audio(tmp_path / f"a{extension}", speech[:, None], 16_000, Encoding("WAV", subtype, tags={"title": "kept"}))
    encoding = read_audio(tmp_path / f"a{extension}").encoding
    assert (encoding.subtype, encoding.bitrate, encoding.tags) == (expected, None, {"title": "kept"})


@pytest.mark.parametrize(("subtype", "hours", "container"), [("PCM_16", 6, "WAV"), ("PCM_16", 7, "RF64")])
def test_a_wave_beyond_its_4_gib_becomes_rf64(subtype: str, hours: int, container: str) -> None:
    values = hours * 3600 * 44_100 * 2
    assert choose_encoding(Path("a.wav"), Encoding("WAV", subtype), values).container == container


# The same bitrate and length


@pytest.mark.slow
@pytest.mark.parametrize("extension", LOSSY)
@pytest.mark.parametrize("channels", [1, 2])
def test_lossy_files_keep_length_place_and_quality(
    tmp_path: Path, music: np.ndarray, extension: str, channels: int
) -> None:
    rate = 48_000 if extension == "opus" else 44_100
    original = music[:200_001, :channels].astype(np.float64)
    write_audio(tmp_path / f"a.{extension}", original, rate)
    first = read_audio(tmp_path / f"a.{extension}")
    assert (first.rate, first.samples.shape) == (rate, original.shape)
    assert delay(original, first.samples) == 0
    assert snr(original, first.samples) > 15  # a level or a polarity that is wrong gives less than 6
    write_audio(tmp_path / f"b.{extension}", first.samples, rate, first.encoding)
    second = read_audio(tmp_path / f"b.{extension}")
    assert second.samples.shape == original.shape
    assert second.encoding.subtype == first.encoding.subtype
    assert first.encoding.bitrate is not None
    assert second.encoding.bitrate == pytest.approx(first.encoding.bitrate, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("rate", formats.MP3_RATES)
@pytest.mark.parametrize("channels", [1, 2])
def test_every_mp3_bitrate_is_the_one_asked_for(tmp_path: Path, music: np.ndarray, rate: int, channels: int) -> None:
    legal = mpeg.LAYER3_KBPS[1 if rate >= 32_000 else 2]
    samples = music[: 2 * rate, :channels]
    for bitrate in legal:
        write_audio(tmp_path / "a.mp3", samples, rate, Encoding("MP3", "MPEG_LAYER_III", bitrate))
        recording = read_audio(tmp_path / "a.mp3")
        assert recording.samples.shape == samples.shape
        found = recording.encoding.bitrate
        assert found is not None
        assert found == min(bitrate, mpeg.max_bitrate(rate))


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.1, 0.5, 0.8])
def test_variable_mp3_stays_variable_at_its_quality(tmp_path: Path, music: np.ndarray, level: float) -> None:
    sf.write(tmp_path / "a.mp3", music, 44_100, bitrate_mode="VARIABLE", compression_level=level)
    first = read_audio(tmp_path / "a.mp3")
    mean = (tmp_path / "a.mp3").stat().st_size * 8 / 1000 / (len(music) / 44_100)
    assert first.encoding.bitrate == pytest.approx(mean, rel=0.02)
    assert first.encoding.rate_control == RateControl("VARIABLE", 10 * level)
    write_audio(tmp_path / "b.mp3", first.samples, 44_100, first.encoding)
    second = read_audio(tmp_path / "b.mp3").encoding
    assert second.rate_control == first.encoding.rate_control
    assert second.bitrate == pytest.approx(first.encoding.bitrate, rel=0.03)


def test_variable_mp3_without_an_index_is_read_to_its_end(tmp_path: Path, music: np.ndarray) -> None:
    sf.write(tmp_path / "a.mp3", music, 44_100, bitrate_mode="VARIABLE", compression_level=0.5)
    data = (tmp_path / "a.mp3").read_bytes()
    stream = mpeg.scan(io.BytesIO(data))
    assert stream is not None
    assert stream.has_xing
    bare = data[data.index(b"\xff\xfb", stream.start + 4) :]
    (tmp_path / "b.mp3").write_bytes(bare)
    recording = read_audio(tmp_path / "b.mp3")
    # without the index the encoder's delay and padding stay in
    assert len(recording.samples) == pytest.approx(stream.num_frames * 1152, abs=2 * 1152)
    assert len(recording.samples) >= len(music)


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "channels"), [(16_000, 1), (44_100, 1), (44_100, 2), (48_000, 2)])
def test_vorbis_keeps_its_quality(tmp_path: Path, music: np.ndarray, rate: int, channels: int) -> None:
    for level in (0.0, 0.3, 0.5, 0.95):
        with sf.SoundFile(
            tmp_path / "a.ogg", "w", rate, channels, format="OGG", subtype="VORBIS", compression_level=level
        ) as file:
            file.write(music[: 2 * rate, :channels])
        first = read_audio(tmp_path / "a.ogg")
        write_audio(tmp_path / "b.ogg", first.samples, rate, first.encoding)
        assert read_audio(tmp_path / "b.ogg").encoding.bitrate == first.encoding.bitrate


@pytest.mark.slow
@pytest.mark.parametrize("bitrate", [32, 64, 128, 256])
def test_opus_and_aac_keep_their_bitrate(tmp_path: Path, music: np.ndarray, bitrate: int) -> None:
    for extension, container, subtype in (("opus", "OGG", "OPUS"), ("m4a", "M4A", "AAC")):
        write_audio(tmp_path / f"a.{extension}", music, 48_000, Encoding(container, subtype, bitrate))
        assert read_audio(tmp_path / f"a.{extension}").encoding.bitrate == pytest.approx(bitrate, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000])
@pytest.mark.parametrize("channels", [1, 2, 6])
def test_m4a_keeps_its_length_at_every_rate(tmp_path: Path, speech: np.ndarray, rate: int, channels: int) -> None:
    samples = np.repeat(speech[: rate + 333, None] if rate < 96_000 else speech[:95_777, None], channels, axis=1)
    write_audio(tmp_path / "a.m4a", samples, rate)
    recording = read_audio(tmp_path / "a.m4a")
    assert (recording.rate, recording.samples.shape) == (rate, samples.shape)


@pytest.mark.parametrize(("subtype", "bits"), [("ALAC_16", 16), ("ALAC_24", 24)])
def test_lossless_m4a_stays_lossless(tmp_path: Path, subtype: str, bits: int) -> None:
    steps = np.random.default_rng(0).integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (70_001, 2))
    write_audio(tmp_path / "a.m4a", steps / 2.0 ** (bits - 1), 44_100, Encoding("M4A", subtype))
    recording = read_audio(tmp_path / "a.m4a")
    assert recording.encoding.subtype == subtype
    assert recording.encoding.bitrate is None
    assert np.array_equal(recording.samples * 2.0 ** (bits - 1), steps)


def test_other_containers_are_read_with_av(tmp_path: Path, music: np.ndarray) -> None:
    with av.open(str(tmp_path / "a.webm"), "w") as container:
        stream = container.add_stream("libopus", rate=48_000, layout="stereo")
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(music[:96_000].T), format="fltp", layout="stereo")
        frame.sample_rate = 48_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    recording = read_audio(tmp_path / "a.webm")
    assert recording.encoding.subtype in ("OPUS", "LIBOPUS")
    assert snr(music[:90_000], recording.samples[:90_000]) > 10


def test_a_film_is_not_robbed_of_its_video(tmp_path: Path, speech: np.ndarray) -> None:
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        video = container.add_stream("mpeg4", rate=25, width=64, height=64)
        sound = container.add_stream("aac", rate=16_000, layout="mono")
        for _ in range(25):
            container.mux(video.encode(av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24")))
        frame = av.AudioFrame.from_ndarray(speech[None, :16_000], format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 16_000, 0, Fraction(1, 16_000)
        container.mux(sound.encode(frame))
        for stream in (video, sound):
            container.mux(stream.encode(None))
    film = read_audio(tmp_path / "a.mp4")
    assert snr(speech[:16_000, None], film.samples[:16_000]) > 10
    with pytest.raises(FileError, match="would lose the video"):
        write_audio(tmp_path / "b.mp4", film.samples, film.rate, film.encoding)
    write_audio(tmp_path / "b.m4a", film.samples, film.rate, film.encoding)
    assert read_audio(tmp_path / "b.m4a").samples.shape == film.samples.shape


@pytest.mark.slow
def test_long_vorbis_does_not_overrun_the_encoder(tmp_path: Path, speech: np.ndarray) -> None:
    long = np.tile(speech, 100)[:, None]  # ten minutes
    write_audio(tmp_path / "a.ogg", long, 16_000)
    assert sf.info(tmp_path / "a.ogg").frames == len(long)


# The same tags


@pytest.mark.parametrize("extension", ["wav", "flac", "ogg", "opus", "mp3", "m4a"])
def test_tags_are_kept(tmp_path: Path, speech: np.ndarray, extension: str) -> None:
    write_audio(tmp_path / f"a.{extension}", speech[:, None], 16_000, Encoding("", "", tags=TAGS))
    first = read_audio(tmp_path / f"a.{extension}")
    assert first.encoding.tags == TAGS
    write_audio(tmp_path / f"b.{extension}", first.samples, first.rate, first.encoding)
    assert read_audio(tmp_path / f"b.{extension}").encoding.tags == TAGS


@pytest.mark.parametrize(("source", "target"), [("mp3", "flac"), ("m4a", "mp3"), ("flac", "m4a"), ("wav", "ogg")])
def test_tags_move_to_another_container(tmp_path: Path, speech: np.ndarray, source: str, target: str) -> None:
    write_audio(tmp_path / f"a.{source}", speech[:, None], 16_000, Encoding("", "", tags=TAGS))
    recording = read_audio(tmp_path / f"a.{source}")
    write_audio(tmp_path / f"b.{target}", recording.samples, recording.rate, recording.encoding)
    assert read_audio(tmp_path / f"b.{target}").encoding.tags == TAGS


def test_a_container_without_tags_is_written_all_the_same(tmp_path: Path, speech: np.ndarray) -> None:
    write_audio(tmp_path / "a.au", speech[:, None], 16_000, Encoding("", "", tags=TAGS))
    assert read_audio(tmp_path / "a.au").encoding.tags == {}


def test_an_mp3_keeps_its_whole_id3_tag(tmp_path: Path, speech: np.ndarray) -> None:
    write_audio(tmp_path / "a.mp3", speech[:, None], 16_000)
    picture = b"\x00image/png\x00\x03\x00" + b"picture" * 1000
    frame = b"APIC" + len(picture).to_bytes(4, "big") + b"\0\0" + picture
    size = bytes(len(frame) >> shift & 0x7F for shift in (21, 14, 7, 0))
    head = b"ID3\x03\0\0" + size + frame
    data = (tmp_path / "a.mp3").read_bytes()
    (tmp_path / "a.mp3").write_bytes(head + data[tags.id3_length(data) :])
    first = read_audio(tmp_path / "a.mp3")
    write_audio(tmp_path / "b.mp3", first.samples, first.rate, first.encoding)
    assert (tmp_path / "b.mp3").read_bytes().startswith(head)
    second = read_audio(tmp_path / "b.mp3")
    assert second.samples.shape == first.samples.shape
    assert second.encoding.bitrate == first.encoding.bitrate


# Whole or not at all


def test_nothing_changes_when_writing_fails(tmp_path: Path, speech: np.ndarray) -> None:
    class Interrupting(np.ndarray):
        """Samples during whose writing the user presses Ctrl-C."""

        def __getitem__(self, key: object) -> np.ndarray:
            if isinstance(key, slice) and key.start:
                raise KeyboardInterrupt
            return np.asarray(self)[key]  # type: ignore[index]

    target = tmp_path / "a.flac"
    write_audio(target, speech[:, None], 16_000)
    before = target.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        write_audio(target, np.tile(speech, 2)[:, None].view(Interrupting), 16_000)
    assert target.read_bytes() == before
    assert no_leftovers(tmp_path, "a.flac")


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    script = (
        "import resource, signal, sys, numpy as np\n"
        "from ideaw.audio.write import write_audio\n"
        "from ideaw.errors import FileError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        write_audio(name, np.random.default_rng(0).normal(0, 0.1, (200_000, 2)), 44_100)\n"
        "    except FileError as problem:\n"
        "        print(problem)\n"
    )
    names = [str(tmp_path / f"a.{extension}") for extension in ("wav", "flac", "ogg", "mp3", "m4a")]
    done = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == len(names), done.stdout
    assert no_leftovers(tmp_path)


def test_a_new_file_has_the_permissions_of_any_other(tmp_path: Path, speech: np.ndarray) -> None:
    (tmp_path / "plain").touch()
    write_audio(tmp_path / "a.wav", speech[:, None], 16_000)
    assert (tmp_path / "a.wav").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "a.wav").chmod(0o640)
    write_audio(tmp_path / "a.wav", speech[:, None], 16_000)
    assert stat.S_IMODE((tmp_path / "a.wav").stat().st_mode) == 0o640


def test_a_link_is_written_through(tmp_path: Path, speech: np.ndarray) -> None:
    write_audio(tmp_path / "a.wav", speech[:16_000, None], 16_000)
    (tmp_path / "link.wav").symlink_to(tmp_path / "a.wav")
    write_audio(tmp_path / "link.wav", speech[:, None], 16_000)
    assert (tmp_path / "link.wav").is_symlink()
    assert len(read_audio(tmp_path / "a.wav").samples) == len(speech)


# One line for every mistake


@pytest.mark.slow
@pytest.mark.parametrize("extension", ["wav", "rf64", "flac", "ogg", "opus", "aiff", "au", "w64", "m4a"])
@pytest.mark.parametrize("part", [0.3, 0.7, 0.99])
def test_a_truncated_file_is_refused(tmp_path: Path, music: np.ndarray, extension: str, part: float) -> None:
    write_audio(tmp_path / f"a.{extension}", music, 48_000)
    data = (tmp_path / f"a.{extension}").read_bytes()
    (tmp_path / f"a.{extension}").write_bytes(data[: int(len(data) * part)])
    with pytest.raises(FileError, match="truncated"):
        read_audio(tmp_path / f"a.{extension}")


def test_an_mp3_with_fewer_frames_than_it_says_is_refused(tmp_path: Path, music: np.ndarray) -> None:
    write_audio(tmp_path / "a.mp3", music, 44_100)
    data = (tmp_path / "a.mp3").read_bytes()
    (tmp_path / "a.mp3").write_bytes(data[: len(data) // 2 + 17])
    with pytest.raises(FileError, match="truncated"):
        read_audio(tmp_path / "a.mp3")


@pytest.mark.slow
def test_a_cut_mp3_without_an_index_gives_what_is_there(tmp_path: Path, music: np.ndarray) -> None:
    write_audio(tmp_path / "a.mp3", music, 44_100)
    data = (tmp_path / "a.mp3").read_bytes().replace(b"Info", b"none")
    (tmp_path / "a.mp3").write_bytes(data[: len(data) // 2 + 17])
    assert len(read_audio(tmp_path / "a.mp3").samples) == pytest.approx(len(music) / 2, abs=5_000)


def test_a_wave_that_was_piped_promises_nothing(tmp_path: Path, speech: np.ndarray) -> None:
    write_audio(tmp_path / "a.wav", speech[:, None], 16_000)
    data = bytearray((tmp_path / "a.wav").read_bytes())
    at = data.index(b"data")
    data[4:8] = data[at + 4 : at + 8] = b"\xff\xff\xff\xff"
    (tmp_path / "a.wav").write_bytes(data)
    assert len(read_audio(tmp_path / "a.wav").samples) == len(speech)


@pytest.mark.parametrize("name", ["a.wav", "a.mp3", "a.flac", "a.ogg", "a.m4a", "a.aac", "a.raw", "a"])
def test_what_is_no_audio_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(FileError, match="does not exist"):
        read_audio(path)
    path.touch()
    with pytest.raises(FileError, match="empty"):
        read_audio(path)
    for seed in range(5):
        path.write_bytes(np.random.default_rng(seed).bytes(30_000))
        with pytest.raises(FileError, match=r"format|frames"):
            read_audio(path)
    path.write_text("This is a letter, not a recording.\n" * 50)
    with pytest.raises(FileError, match=r"format|frames"):
        read_audio(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(FileError, match="is a directory"):
        read_audio(path)
    with pytest.raises(FileError):
        write_audio(path, np.zeros((16_000, 1)), 16_000)
    assert no_leftovers(tmp_path, name)


MISTAKES = {
    "use one of .wav, .flac": ("a.xyz", 1, 16_000),
    "without an extension": ("a", 1, 16_000),
    "use .m4a": ("a.aac", 1, 16_000),
    "does not exist; make it first": ("missing/a.wav", 1, 16_000),
    "cannot hold 3 channels; use .wav, or at most 2": ("a.mp3", 3, 16_000),
    "cannot hold 9 channels; use .wav, or at most 8": ("a.flac", 9, 16_000),
    "cannot hold 7 channels; use .wav": ("a.m4a", 7, 16_000),
    ".mp3 cannot hold 96000 Hz; use .wav or .flac": ("a.mp3", 1, 96_000),
    "use .wav, or a multiple of 10 Hz": ("a.flac", 1, 96_001),
    ".opus cannot hold 44100 Hz": ("a.opus", 1, 44_100),
    ".m4a cannot hold 192000 Hz": ("a.m4a", 1, 192_000),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_what_cannot_be_written_gets_one_line(tmp_path: Path, line: str) -> None:
    name, channels, rate = MISTAKES[line]
    with pytest.raises(FileError) as caught:
        write_audio(tmp_path / name, np.zeros((rate, channels)), rate)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert no_leftovers(tmp_path)


def test_no_samples_are_not_a_file(tmp_path: Path) -> None:
    for extension in EXTENSIONS:
        with pytest.raises(FileError, match="no samples to write"):
            write_audio(tmp_path / f"a{extension}", np.zeros((0, 2)), 48_000)
    assert no_leftovers(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_protected_folder_gets_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="permission denied"):
        write_audio(tmp_path / "a.wav", np.zeros((16_000, 1)), 16_000)


def test_a_device_is_not_replaced() -> None:
    with pytest.raises(FileError, match="cannot be written"):
        write_audio(Path("/proc/a.wav"), np.zeros((16_000, 1)), 16_000)


def test_the_input_is_not_the_output(tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    (tmp_path / "link.wav").symlink_to("a.wav")
    (tmp_path / "hard.wav").hardlink_to(tmp_path / "a.wav")
    for other in ("a.wav", "link.wav", "hard.wav", f"../{tmp_path.name}/a.wav"):
        with pytest.raises(FileError, match="is the input itself"):
            check_distinct(tmp_path / "a.wav", tmp_path / other)
    check_distinct(tmp_path / "a.wav", tmp_path / "b.wav")


def test_without_av_the_line_says_what_to_install(tmp_path: Path, speech: np.ndarray) -> None:
    write_audio(tmp_path / "a.m4a", speech[:, None], 16_000)
    script = (
        "import sys; sys.modules['av'] = None\n"
        "import numpy as np\n"
        "from ideaw.audio.read import read_audio\n"
        "from ideaw.audio.write import write_audio\n"
        "from ideaw.errors import MissingExtraError\n"
        "name, silence = sys.argv[1], np.zeros((9, 1))\n"
        "for action in (lambda: read_audio(name), lambda: write_audio(name, silence, 8000)):\n"
        "    try: action()\n"
        "    except MissingExtraError as problem: print(problem)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.m4a")], capture_output=True, text=True, check=True
    )
    assert done.stdout.count('pip install "ideaw[formats]"') == 2


def test_importing_files_is_light() -> None:
    script = (
        "import sys, ideaw.audio.read, ideaw.audio.write;"
        "print([m for m in ('av', 'torch', 'onnxruntime') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_every_extension_can_be_written(tmp_path: Path, speech: np.ndarray) -> None:
    for extension in EXTENSIONS:
        rate = 48_000 if extension == ".webm" else 16_000
        write_audio(tmp_path / f"a{extension}", speech[:, None], rate)
        recording = read_audio(tmp_path / f"a{extension}")
        assert (recording.rate, recording.samples.shape) == (rate, (len(speech), 1))
        write_audio(tmp_path / f"a{extension.upper()}", speech[:, None], rate)
