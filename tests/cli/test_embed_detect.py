"""`embed` and `detect` on real files of every format: the message comes through, and the rest stays."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.audio.formats import Encoding
from ideaw.audio.read import read_audio
from ideaw.audio.write import write_audio
from tests.cli.conftest import run, run_process

TAGS = {"title": "Ungarischer Tanz Nr. 5, fis-Moll", "artist": "United States Army Strings"}
LOSSLESS = (".wav", ".flac")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, music: NDArray[np.float32]) -> Path:
    """A folder with stereo music in every format, with tags: `in.wav`, `in.mp3`, …; Opus has no 44.1 kHz."""
    folder = tmp_path_factory.mktemp("played")
    for suffix in (".wav", ".flac", ".mp3", ".ogg", ".m4a"):
        write_audio(folder / f"in{suffix}", music.astype(np.float64), 44_100, Encoding("", "", tags=TAGS))
    resampled = soxr.resample(music, 44_100, 48_000).astype(np.float64)
    write_audio(folder / "in.opus", resampled, 48_000, Encoding("", "", tags=TAGS))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".wav", ".flac", ".mp3", ".ogg", ".m4a", ".opus"])
def test_a_message_goes_through_every_format(tmp_path: Path, played: Path, suffix: str) -> None:
    source, target = played / f"in{suffix}", tmp_path / f"out{suffix}"
    ran = run("embed", source, target, "-m", "IDEA", "--snr", "38")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f'{target}: holds "IDEA", ')
    assert [path.name for path in tmp_path.iterdir()] == [target.name]

    before, after = read_audio(source), read_audio(target)
    assert after.samples.shape == before.samples.shape
    assert after.rate == before.rate
    assert (after.encoding.container, after.encoding.subtype) == (before.encoding.container, before.encoding.subtype)
    assert after.encoding.tags == before.encoding.tags == TAGS
    if suffix in LOSSLESS:
        assert float(ran.out.split()[-2]) >= 38

    ran = run("detect", target)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f'{target}: found "IDEA" in ')
    assert ran.out.count("\n") == 1
    ran = run("detect", source)
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith(f"{source}: not found")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "options", "says"), [("22+10", ("-m", "x"), '"x"'), ("10+10", ("-m", "0110", "--bits"), "bits 0110")]
)
def test_other_lengths_of_messages(
    tmp_path: Path, played: Path, model: str, options: tuple[str, ...], says: str
) -> None:
    target = tmp_path / "out.mp3"
    ran = run("embed", played / "in.wav", target, *options, "--model", model)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{target}: holds {says}, ")
    ran = run("detect", target, "--model", model)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{target}: found {says} in ")
    assert run("detect", played / "in.wav", "--model", model).code == 1


def test_a_mark_that_8_bits_cannot_hold_is_refused(tmp_path: Path, spoken: Path) -> None:
    source, target = tmp_path / "in.wav", tmp_path / "out.wav"
    sf.write(source, sf.read(spoken)[0], 16_000, subtype="PCM_U8")
    ran = run("embed", source, target, "-m", "IDEA")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "rounds away; use wider samples or a stronger mark" in ran.err
    assert not target.exists()


@pytest.mark.slow
def test_from_one_format_to_another(tmp_path: Path, played: Path) -> None:
    assert run("embed", played / "in.flac", tmp_path / "out.mp3", "-m", "IDEA").code == 0
    assert read_audio(tmp_path / "out.mp3").encoding.tags == TAGS
    assert run("detect", tmp_path / "out.mp3").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "subtype"),
    [
        *[(".wav", subtype) for subtype in ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")],
        (".flac", "PCM_16"),
        (".flac", "PCM_24"),
    ],
)
def test_samples_of_every_width(tmp_path: Path, music: NDArray[np.float32], suffix: str, subtype: str) -> None:
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    sf.write(source, music[:, 0] / np.abs(music).max(), 44_100, subtype=subtype)  # loud, for the sake of 8 bits
    snr = 30 if subtype == "PCM_U8" else ideaw.load().card.snr  # 8 bits hold no fainter mark
    ran = run("embed", source, target, "-m", "IDEA", "--snr", snr, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["lowest_snr"] >= snr - 0.01
    assert sf.info(target).subtype == subtype
    assert not np.array_equal(sf.read(source)[0], sf.read(target)[0])
    assert run("detect", target).code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        (("-m", "€"), "text", "€"),
        (("-m", "0110100", "--bits"), "bits", "0110100"),
        (("-m", "00ff0a", "--hex"), "bytes", "00ff0a"),
    ],
)
def test_json_says_what_was_found_and_where(
    tmp_path: Path, spoken: Path, options: tuple[str, ...], kind: str, message: str
) -> None:
    target = tmp_path / "out.wav"
    ran = run("embed", spoken, target, *options, "--snr", "30", "--json")
    written = json.loads(ran.out)
    assert written.pop("lowest_snr") == pytest.approx(30, abs=1)
    assert written == {
        "file": str(target),
        "message": message,
        "kind": kind,
        "model": "46+10",
        "snr": 30,
        "audibility": None,
        "layers": ["fast"],
    }

    found = json.loads(run("detect", target, "--json").out)
    assert (found["found"], found["message"], found["kind"]) == (True, message, kind)
    assert found["messages"] == [message]
    assert found["p_value"] < 1e-6
    assert sum(segment["end"] - segment["start"] for segment in found["segments"]) > 4
    assert {"start", "end", "score", "message_ok"} <= set(found["segments"][0])
    assert all(segment.get("message", message) == message for segment in found["segments"])


@pytest.mark.slow
def test_json_of_several_files_is_a_list(tmp_path: Path, marked: Path, spoken: Path) -> None:
    ran = run("detect", marked, spoken, "--json")
    assert ran.code == 1
    first, second = json.loads(ran.out)
    assert (first["file"], first["found"], first["message"]) == (str(marked), True, "hey")
    assert (second["file"], second["found"], second["message"], second["kind"]) == (str(spoken), False, None, None)
    assert second["segments"] == []

    ran = run("detect", marked, tmp_path / "none.wav", "--json")
    assert ran.code == 2
    assert json.loads(ran.out)[1] == {
        "file": str(tmp_path / "none.wav"),
        "error": f"{tmp_path / 'none.wav'} does not exist",
    }


@pytest.mark.slow
def test_a_message_that_would_steer_a_terminal_is_printed_escaped(tmp_path: Path, spoken: Path) -> None:
    target = tmp_path / "out.wav"
    assert run("embed", spoken, target, "-m", "\x1b[2J").out.startswith(rf'{target}: holds "\x1b[2J"')
    assert run("detect", target).out.startswith(rf'{target}: found "\x1b[2J"')
    assert json.loads(run("detect", target, "--json").out)["message"] == "\x1b[2J"


@pytest.mark.slow
def test_where_the_mark_is_is_drawn(tmp_path: Path, marked: Path, spoken: Path) -> None:
    for path, code in ((marked, 0), (spoken, 1)):
        plot = tmp_path / f"{path.stem}.png"
        assert run("detect", path, "--plot", plot).code == code
        assert plot.read_bytes().startswith(b"\x89PNG")
    pictures = [(tmp_path / f"{path.stem}.png").read_bytes() for path in (marked, spoken)]
    assert pictures[0] != pictures[1]

    ran = run("detect", marked, spoken, "--plot", tmp_path / "both.png")
    assert (ran.code, ran.out) == (2, "")
    assert "a plot shows one file" in ran.err
    ran = run("detect", marked, "--plot", tmp_path / "plot.wav")
    assert (ran.code, ran.out) == (2, "")
    assert '".wav"' in ran.err
    assert not (tmp_path / "plot.wav").exists()


@pytest.mark.slow
def test_the_installed_program_marks_and_finds(tmp_path: Path, spoken: Path) -> None:
    target = tmp_path / "out.flac"
    ran = run_process("embed", spoken, target, "-m", "hey")
    assert (ran.code, ran.err, ran.out.count("\n")) == (0, "", 1)
    ran = run_process("detect", target)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f'{target}: found "hey"')
    ran = run_process("detect", target, spoken)
    assert ran.code == 1


# Keys, speeds and long messages


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three files of keys."""
    folder = tmp_path_factory.mktemp("keys")
    paths = [folder / f"{name}.key" for name in ("mine", "yours", "theirs")]
    for path in paths:
        assert run("keygen", path).code == 0
    return paths


@pytest.mark.slow
def test_several_keys_are_tried_and_the_right_one_is_named(tmp_path: Path, spoken: Path, keys: list[Path]) -> None:
    mine, yours, theirs = keys
    target = tmp_path / "out.wav"
    assert run("embed", spoken, target, "-m", "hey", "--key", yours).code == 0
    ran = run("detect", target, "--key", mine, "--key", yours, "--speeds", "none")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f'{target}: found "hey" in ')
    assert ran.out.endswith(f", key {yours}\n")
    found = json.loads(run("detect", target, "--key", mine, "--key", yours, "--json").out)
    assert (found["key"], found["message"], found["speed"]) == (str(yours), "hey", 1)
    for others in ((), ("--key", mine, "--key", theirs)):
        ran = run("detect", target, *others, "--speeds", "none", "--json")
        assert ran.code == 1
        found = json.loads(ran.out)
        assert (found["found"], found["key"], found["segments"]) == (False, None, [])
    ran = run("detect", target, "--key", mine, "--key", tmp_path / "none.key")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


def _joined(folder: Path, spoken: Path, *parts: tuple[str, tuple[object, ...]]) -> Path:
    """Five seconds of speech for each message, with the options that it was embedded with."""
    pieces = []
    for message, options in parts:
        part = folder / f"{len(pieces)}.wav"
        part.unlink(missing_ok=True)
        assert run("embed", spoken, part, "-m", message, *options).code == 0
        pieces.append(sf.read(part)[0][:80_000])
    sf.write(folder / "joined.wav", np.concatenate(pieces), 16_000)
    return folder / "joined.wav"


@pytest.mark.slow
def test_every_stretch_of_audio_that_two_have_marked_is_told_with_its_message_and_key(
    tmp_path: Path, spoken: Path, keys: list[Path]
) -> None:
    given = [(message, ("--key", key)) for message, key in zip(("one", "two"), keys, strict=False)]
    joined = _joined(tmp_path, spoken, *given)
    asked = ("detect", joined, "--key", keys[0], "--key", keys[1], "--speeds", "none")

    first, *lines = run(*asked).out.splitlines()
    assert first.startswith((f'{joined}: found "one" in ', f'{joined}: found "two" in '))
    assert float(first.split(" in ")[1].split()[0]) == pytest.approx(5, abs=0.5)  # not what the other has marked
    assert [line.split(", ", 2)[2] for line in lines] == [f'"one", key {keys[0]}', f'"two", key {keys[1]}']
    answer = run(*asked, "--json").out
    assert not any(key.read_text().strip() in answer for key in keys)
    told = json.loads(answer)["segments"]
    assert [(each["message"], each["key"]) for each in told] == [("one", str(keys[0])), ("two", str(keys[1]))]
    for each, span in zip(told, ((0, 5), (5, 10)), strict=True):
        assert (each["start"], each["end"]) == pytest.approx(span, abs=0.5)


@pytest.mark.slow
def test_stretches_are_listed_where_their_messages_differ(tmp_path: Path, spoken: Path) -> None:
    _, *lines = run("detect", _joined(tmp_path, spoken, ("one", ()), ("two", ())), "--speeds", "none").out.splitlines()
    assert [line.split(", ", 2)[2] for line in lines] == ['"one"', '"two"']
    same = _joined(tmp_path, spoken, ("one", ()), ("one", ()))
    told = run("detect", same, "--speeds", "none")
    assert (told.code, told.out.count("\n")) == (0, 1)


@pytest.mark.slow
def test_other_speeds_are_tried_as_asked(tmp_path: Path, marked: Path) -> None:
    samples, rate = sf.read(marked)
    sf.write(tmp_path / "fast.wav", soxr.resample(samples[32_000:], 1.1 * rate, rate), rate)
    for speeds, code in (("none", 1), ("near", 1), ("all", 0)):
        ran = run("detect", tmp_path / "fast.wav", "--speeds", speeds)
        assert (ran.code, ran.err) == (code, "")
    by_default = run("detect", tmp_path / "fast.wav")
    assert by_default.out == ran.out
    assert float(ran.out.split("played ")[1].split(" times as fast")[0]) == pytest.approx(1.1, rel=0.005)
    told = json.loads(run("detect", tmp_path / "fast.wav", "--json").out)
    assert told["speed"] == pytest.approx(1.1, rel=0.005)
    ran = run("detect", tmp_path / "fast.wav", "--speeds", "some")
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.slow
def test_a_long_message_goes_through_a_file(tmp_path: Path, spoken: Path) -> None:
    for options, message in ((("-m", "a.example"), "a.example"), (("-m", "00ff" * 4, "--hex"), "00ff" * 4)):
        assert run("embed", spoken, tmp_path / "out.flac", *options, "--snr", "30", "--overwrite").code == 0
        assert json.loads(run("detect", tmp_path / "out.flac", "--json").out)["message"] == message


def test_no_mark_says_which_speeds_were_searched(spoken: Path) -> None:
    hints = {
        "none": "no mark at its own speed (--speeds all looks from 0.8 to 1.25) (p = ",
        "near": "no mark at speeds within 6 % (--speeds all looks from 0.8 to 1.25) (p = ",
        "all": "no mark (p = ",
        None: "no mark (its deep layer was looked for at speeds within 6 %; --speeds all looks from 0.8 to 1.25) (p = ",
    }
    for speeds, hint in hints.items():
        ran = run("detect", spoken, *(() if speeds is None else ("--speeds", speeds)))
        assert (ran.code, ran.err) == (1, "")
        assert ran.out.startswith(f"{spoken}: not found: {hint}")


def test_threads_are_one_or_more(tmp_path: Path, spoken: Path, marked: Path) -> None:
    assert run("embed", spoken, tmp_path / "out.wav", "-m", "hey", "--threads", "1").code == 0
    assert run("detect", marked, "--threads", "2").code == 0
    for arguments in (("embed", spoken, tmp_path / "none.wav", "-m", "hey"), ("detect", marked), ("demo",)):
        ran = run(*arguments, "--threads", "0")
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert "1 or more" in ran.err
    assert not (tmp_path / "none.wav").exists()


def test_a_file_that_is_too_long_is_refused(spoken: Path) -> None:
    seconds = sf.info(spoken).duration
    assert run("detect", spoken, "--longest", str(seconds)).code == 1
    ran = run("detect", spoken, "--longest", "2")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert str(spoken) in ran.err
    assert "longer than the 2 s" in ran.err
    ran = run("detect", spoken, "--longest", "0")
    assert (ran.code, ran.err.count("\n")) == (2, 1)


@pytest.mark.slow
def test_a_short_clip_is_marked_as_strongly_as_it_takes_and_said_so(tmp_path: Path, spoken: Path) -> None:
    samples, rate = sf.read(spoken)
    short, marked = tmp_path / "short.wav", tmp_path / "marked.wav"
    usual, levels = ideaw.load("10+10").card.audibility, set()
    for begin in np.array([4, 7]) * rate // 2:  # the second of them cannot be read at the usual level
        sf.write(short, samples[begin : begin + rate // 2], rate)
        arguments = ("embed", short, marked, "-m", "101", "--bits", "--model", "10+10", "--overwrite")
        said, told = run(*arguments), json.loads(run(*arguments, "--json").out)
        assert f"{told['audibility']:g} dB noise to mask" in said.out
        assert ideaw.load("10+10").detect_file(marked).message == (1, 0, 1)
        levels.add(told["audibility"])
        with pytest.raises(ideaw.LostMarkError):
            ideaw.load("10+10").embed_file(short, marked, (1, 0, 1), audibility=usual - 6)
    assert usual in levels
    assert max(levels) > usual
