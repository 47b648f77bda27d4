"""Marking files: read back before they are handed over, no mark over another unasked, from and to anything."""

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.audio.read import read_audio
from ideaw.quality.fidelity import lowest_snr


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(threads=1)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32]) -> Path:
    """Three seconds of speech."""
    path = tmp_path_factory.mktemp("spoken") / "speech.wav"
    sf.write(path, speech[:48_000], 16_000)
    return path


# Read back


def noise(seconds: float) -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(0, 0.1, round(seconds * 16_000))


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".mp3"])
def test_a_mark_in_white_noise_is_not_called_a_success(marker: ideaw.Marker, tmp_path: Path, suffix: str) -> None:
    source, target = tmp_path / f"noise{suffix}", tmp_path / f"out{suffix}"
    sf.write(source, noise(4), 16_000)
    with pytest.raises(ideaw.LostMarkError, match=r"cannot be read back .*(like noise|31 kbit/s)") as caught:
        marker.embed_file(source, target, "hey")
    assert str(target) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]
    marker.embed_file(source, target, "hey", verify=False)
    assert marker.detect_file(target).message is None


@pytest.mark.parametrize(
    ("level", "hint"),
    [({"snr": 75}, "too faint at 75 dB SNR"), ({"audibility": -40}, "too faint at -40 dB noise to mask")],
)
def test_a_mark_that_is_too_faint_says_so(
    marker: ideaw.Marker, tmp_path: Path, speech: NDArray[np.float32], level: dict[str, float], hint: str
) -> None:
    hissing = speech[:48_000] * 0.1 + noise(3)
    sf.write(tmp_path / "in.wav", hissing, 16_000, subtype="FLOAT")
    with pytest.raises(ideaw.LostMarkError, match=hint):
        marker.embed_file(tmp_path / "in.wav", tmp_path / "out.wav", "hey", **level)  # type: ignore[arg-type]
    assert not (tmp_path / "out.wav").exists()


def test_a_message_that_fills_the_audio_to_its_brim_says_so(
    marker: ideaw.Marker, tmp_path: Path, speech: NDArray[np.float32]
) -> None:
    half = len(speech) // 2  # the message needs every second, and half of them hold none
    sf.write(tmp_path / "in.wav", np.concatenate([speech[:half], noise(half / 16_000)]), 16_000)
    with pytest.raises(ideaw.LostMarkError, match="use a shorter message, or longer audio"):
        marker.embed_file(tmp_path / "in.wav", tmp_path / "out.wav", "x" * marker.capacity(6))


@pytest.mark.slow
def test_a_long_file_is_read_back_where_it_can_be(
    marker: ideaw.Marker, tmp_path: Path, speech: NDArray[np.float32]
) -> None:
    """Noise where the stretches are does not matter, as long as the message is found somewhere."""
    parts = [noise(7), speech, noise(7), speech, noise(7)]
    sf.write(tmp_path / "in.wav", np.concatenate(parts), 16_000)
    marker.embed_file(tmp_path / "in.wav", tmp_path / "out.wav", "hey")
    assert marker.detect_file(tmp_path / "out.wav").message == "hey"
    sf.write(tmp_path / "in.wav", noise(30), 16_000)
    with pytest.raises(ideaw.LostMarkError):
        marker.embed_file(tmp_path / "in.wav", tmp_path / "out.wav", "hey")


# Other marks


def test_no_mark_is_put_over_another_unasked(marker: ideaw.Marker, tmp_path: Path, spoken: Path) -> None:
    key, other = ideaw.Key.fresh(), ideaw.Key.fresh()
    once, twice = tmp_path / "once.wav", tmp_path / "twice.wav"
    marker.embed_file(spoken, once, "one")
    with pytest.raises(ideaw.AlreadyMarkedError, match=r'carries the mark "one" already'):
        marker.embed_file(once, twice, "two")
    with pytest.raises(ideaw.AlreadyMarkedError):  # of the public key, whatever key marks
        ideaw.load(key=key, threads=1).embed_file(once, twice, "two")
    assert not twice.exists()
    marker.embed_file(once, twice, "two", over=True)
    assert marker.detect_file(twice).message == "two"

    secret = ideaw.load(key=key, threads=1)
    secret.embed_file(spoken, once, "mine")
    with pytest.raises(ideaw.AlreadyMarkedError):
        secret.embed_file(once, twice, "two")
    with pytest.raises(ideaw.AlreadyMarkedError, match=key.fingerprint) as caught:
        ideaw.load(key=other, threads=1).embed_file(once, twice, "you", other_keys=[key])
    assert key.hex() not in str(caught.value)
    ideaw.load(key=other, threads=1).embed_file(once, twice, "you")  # whose key it does not know


def test_no_mark_is_put_over_one_of_the_other_layer_unasked(
    marker: ideaw.Marker, tmp_path: Path, speech: NDArray[np.float32]
) -> None:
    sf.write(tmp_path / "in.wav", np.tile(speech, 4), 16_000)  # a deep mark that nobody expects needs its time
    marker.embed_file(tmp_path / "in.wav", tmp_path / "deep.wav", "deep", layers="deep")
    for layers in ("fast", "deep"):
        with pytest.raises(ideaw.AlreadyMarkedError, match='carries the mark "deep" already, of the public key'):
            marker.embed_file(tmp_path / "deep.wav", tmp_path / "twice.wav", "two", layers=layers)
    assert not (tmp_path / "twice.wav").exists()


# From and to anything


def test_bytes_and_open_files_are_taken(marker: ideaw.Marker, spoken: Path) -> None:
    for source in (spoken.read_bytes(), io.BytesIO(spoken.read_bytes()), spoken.open("rb")):
        marked = io.BytesIO()
        ideaw.embed_file(source, marked, "hey")
        content = marked.getvalue()
        assert len(content) == spoken.stat().st_size
        assert content[:44] == spoken.read_bytes()[:44]
        assert ideaw.detect_file(content).message == "hey"
        assert marker.detect_file(io.BytesIO(content)).message == "hey"


def test_what_cannot_be_read_from_a_file_object_is_one_line(marker: ideaw.Marker, tmp_path: Path) -> None:
    closed = (tmp_path / "closed").open("wb")
    closed.close()
    for source in (b"", b"no audio at all", io.StringIO("text"), closed, 17):
        with pytest.raises(ideaw.FileError) as caught:
            marker.detect_file(source)  # type: ignore[arg-type]
        assert "the audio" in str(caught.value)
        assert "/" not in str(caught.value)
        with pytest.raises(ideaw.FileError):
            marker.embed_file(source, io.BytesIO(), "hey")  # type: ignore[arg-type]


def test_an_output_that_is_there_stays_if_it_is_to(marker: ideaw.Marker, tmp_path: Path, spoken: Path) -> None:
    target = tmp_path / "out.wav"
    target.write_bytes(b"what was here before")
    with pytest.raises(ideaw.FileError, match="exists already"):
        marker.embed_file(spoken, target, "hey", overwrite=False)
    assert target.read_bytes() == b"what was here before"
    marker.embed_file(spoken, target, "hey")
    assert marker.detect_file(target).message == "hey"


def test_progress_never_goes_back(marker: ideaw.Marker, tmp_path: Path, spoken: Path) -> None:
    shares: list[float] = []
    marker.embed_file(spoken, tmp_path / "out.wav", "hey", progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1


# What was promised


@pytest.mark.parametrize("subtype", ["ALAW", "ULAW"])
@pytest.mark.parametrize("snr", [30, 38])
def test_a_law_keeps_the_level_in_what_is_written(
    marker: ideaw.Marker, tmp_path: Path, music: NDArray[np.float32], subtype: str, snr: int
) -> None:
    source, target = tmp_path / "in.wav", tmp_path / "out.wav"
    sf.write(source, music[:132_300], 44_100, subtype=subtype)
    marker.embed_file(source, target, "hey", snr=snr)
    before, after = (read_audio(path) for path in (source, target))
    assert after.encoding.subtype == subtype
    assert lowest_snr(before.samples, after.samples, 44_100) >= snr
    assert marker.detect_file(target).message == "hey"


@pytest.mark.parametrize("subtype", ["MS_ADPCM", "IMA_ADPCM", "GSM610"])
def test_a_coding_that_cannot_be_kept_is_refused(
    marker: ideaw.Marker, tmp_path: Path, speech: NDArray[np.float32], subtype: str
) -> None:
    source = tmp_path / "in.wav"
    sf.write(source, speech[:40_000], 8_000, subtype=subtype)
    with pytest.raises(ideaw.FileError, match=r"cannot have the coding of its source.*\.flac"):
        marker.embed_file(source, tmp_path / "out.wav", "hey")
    assert [path.name for path in tmp_path.iterdir()] == ["in.wav"]
    marker.embed_file(source, tmp_path / "out.flac", "hey")
    assert marker.detect_file(tmp_path / "out.flac").message == "hey"


def test_what_describes_samples_is_brought_up_to_date(
    marker: ideaw.Marker, tmp_path: Path, speech: NDArray[np.float32]
) -> None:
    """The checksum that BWF MetaEdit notes; a PEAK that cannot be known any more loses its name."""
    source, target = tmp_path / "in.wav", tmp_path / "out.wav"
    sf.write(source, speech[:48_000], 16_000)
    content = source.read_bytes()
    extra = b"MD5 " + (16).to_bytes(4, "little") + bytes(16) + b"PEAK" + (16).to_bytes(4, "little") + bytes(16)
    size = (len(content) + len(extra) - 8).to_bytes(4, "little")
    source.write_bytes(content[:4] + size + content[8:] + extra)
    marker.embed_file(source, target, "hey")
    written = target.read_bytes()
    assert written[: len(content)][:44] == source.read_bytes()[:44]
    assert written[len(content) + 8 :][:16] == hashlib.md5(written[44 : len(content)]).digest()
    assert written[len(content) + 24 :][:4] == b"JUNK"
    assert len(written) == source.stat().st_size
