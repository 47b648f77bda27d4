"""What the routes answer, on real files: the same as the commands do."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.audio.read import read_audio
from ideaw.audio.write import write_audio
from ideaw.service.presets import PLAYGROUND

from .conftest import Running, wait_until

pytestmark = pytest.mark.xdist_group("service")

FORMATS = ("speech.wav", "speech.flac", "speech.mp3", "speech.ogg", "speech.opus", "speech.aiff", "speech.m4a")


def name_in(answer: Any) -> str:
    """The name under which a browser would save the answer."""
    return str(answer.headers["content-disposition"]).split('"')[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_marked_file_keeps_its_format_and_is_found(
    private: Running, tmp_path: Path, speech: NDArray[np.float32], name: str
) -> None:
    if name.endswith(".m4a"):
        pytest.importorskip("av")
    write_audio(tmp_path / name, speech[:48_000, None], 16_000)
    answer = private.post("embed", {"message": "hey"}, file=tmp_path / name)
    assert answer.status_code == 200, answer.text
    extension = Path(name).suffix
    assert name_in(answer) == f"speech-marked{extension}"
    assert answer.headers["content-type"].startswith("audio/")
    returned = tmp_path / f"returned{extension}"
    returned.write_bytes(answer.content)
    before, after = read_audio(tmp_path / name), read_audio(returned)
    assert (after.encoding.container, after.encoding.subtype) == (before.encoding.container, before.encoding.subtype)
    assert (after.samples.shape, after.rate) == (before.samples.shape, before.rate)
    found = private.post("detect", file=returned).json()
    assert (found["status"], found["message"]) == ("found", "hey")


@pytest.mark.slow
def test_content_decides_the_format_and_not_the_name(private: Running, tmp_path: Path, spoken: Path) -> None:
    flac = tmp_path / "speech.flac"
    write_audio(flac, read_audio(spoken).samples, 16_000)
    for name in ("speech.wav", "speech", "speech.txt", "speech.aac.exe"):
        answer = private.post("embed", {"message": "hey"}, file=(name, flac.read_bytes()))
        assert name_in(answer) == f"{name.rpartition('.')[0] or name}-marked.flac"
        assert answer.content.startswith(b"fLaC")


@pytest.mark.slow
def test_a_detection_is_the_json_of_the_command(private: Running, marked: Path, spoken: Path) -> None:
    from cli.conftest import run  # type: ignore[import-not-found]

    for path in (marked, spoken):
        of_command = json.loads(run("detect", path, "--json").out)
        del of_command["file"]
        assert private.post("detect", file=path).json() == of_command


@pytest.mark.slow
def test_a_comparison_is_the_json_of_the_command(private: Running, marked: Path, spoken: Path) -> None:
    from cli.conftest import run

    answer = private.post("compare", original=spoken, marked=marked)
    assert answer.json() == json.loads(run("compare", spoken, marked, "--json").out)


@pytest.mark.slow
def test_a_key_marks_and_only_it_finds(private: Running, spoken: Path, tmp_path: Path) -> None:
    ours, other = ideaw.Key.fresh(), ideaw.Key.fresh()
    key_file = ("studio.key", f"{ours.hex()}\n".encode())
    answer = private.post("embed", {"message": "hey"}, file=spoken, key=key_file)
    copy = ("copy.wav", answer.content)
    assert private.post("detect", file=copy).json()["status"] == "none"
    form = [("file", copy), ("key", ("other.key", other.hex().encode())), ("key", key_file)]
    found = private.client.post("/v1/detect", files=form).json()
    assert (found["message"], found["key"], found["key_fingerprint"]) == ("hey", "studio.key", ours.fingerprint)
    assert ours.hex() not in json.dumps(found)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "message", "found"), [("hex", "00ff", "bytes"), ("bits", "0110", "bits")])
def test_bytes_and_bits_are_written_in_digits(
    private: Running, spoken: Path, kind: str, message: str, found: str
) -> None:
    answer = private.post("embed", {"message": message, "kind": kind}, file=spoken)
    detected = private.post("detect", file=("copy.wav", answer.content)).json()
    assert (detected["message"], detected["kind"]) == (message, found)


@pytest.mark.slow
@pytest.mark.parametrize("level", [{}, {"snr": 30.0}, {"audibility": -2.0}])
def test_a_marked_file_is_the_one_of_the_library(
    private: Running, spoken: Path, tmp_path: Path, level: dict[str, float]
) -> None:
    ideaw.load(threads=1).embed_file(spoken, tmp_path / "marked.wav", "hey", **level)  # type: ignore[arg-type]
    answer = private.post("embed", {"message": "hey"} | {name: str(db) for name, db in level.items()}, file=spoken)
    assert answer.content == (tmp_path / "marked.wav").read_bytes()


@pytest.mark.slow
def test_a_preview_is_what_was_decoded(private: Running, tmp_path: Path, music: NDArray[np.float32]) -> None:
    write_audio(tmp_path / "music.mp3", music[:66_150], 44_100)
    answer = private.post("preview", file=tmp_path / "music.mp3")
    assert (answer.headers["x-audio-rate"], answer.headers["x-audio-channels"]) == ("44100", "2")
    samples, rate = sf.read(io.BytesIO(answer.content), dtype="float32")
    expected = read_audio(tmp_path / "music.mp3").samples
    assert rate == 44_100
    assert sf.info(io.BytesIO(answer.content)).subtype == "FLOAT"
    assert np.array_equal(samples, expected.astype(np.float32))


@pytest.mark.slow
def test_every_attack_of_the_playground_gives_audio(private: Running, marked: Path) -> None:
    offered = private.client.get("/v1/attacks").json()
    assert [attack["id"] for attack in offered] == list(PLAYGROUND)
    before = sf.read(marked)[0]
    for attack in offered:
        assert attack["label"]
        assert attack["summary"]
        answer = private.post("attack", {"attack": attack["id"]}, file=marked)
        assert answer.status_code == 200, (attack, answer.text)
        assert name_in(answer) == f"marked-{attack['id']}.wav"
        samples, rate = sf.read(io.BytesIO(answer.content))
        assert rate == 16_000
        kept = min(len(samples), len(before))
        assert len(samples) != len(before) or np.abs(samples[:kept] - before[:kept]).max() > 1e-4, attack


@pytest.mark.slow
def test_a_mark_survives_mp3_and_a_cut(private: Running, tmp_path: Path, speech: NDArray[np.float32]) -> None:
    sf.write(tmp_path / "speech.wav", speech, 16_000)
    marked = ("marked.wav", private.post("embed", {"message": "hey"}, file=tmp_path / "speech.wav").content)
    for attack in ("mp3-64", "cut", "quieter"):
        attacked = private.post("attack", {"attack": attack}, file=marked).content
        assert private.post("detect", file=("attacked.wav", attacked)).json()["message"] == "hey", attack


def test_the_page_finds_out_what_it_needs(private: Running) -> None:
    info = private.client.get("/v1/info").json()
    card = ideaw.load().card
    assert (info["version"], info["model"], info["snr"]) == (ideaw.__version__, card.name, card.snr)
    assert info["token_needed"] is False
    capacity = info["capacity"]
    for seconds in (1, 7, 100, 1000):
        spread = capacity["bytes_per_second"] * min(seconds, capacity["max_seconds"]) - capacity["overhead_bytes"]
        assert max(capacity["bytes_in_every_second"], spread) == ideaw.load().capacity(seconds)
    assert private.client.get("/v1/sample").content.startswith(b"OggS")
    assert private.client.get("/health").json() == {"status": "ok"}


def test_requests_and_jobs_are_counted(private: Running, spoken: Path) -> None:
    request, job = 'ideaw_requests_total{route="/v1/preview",status="200"}', 'ideaw_job_seconds_count{job="preview"}'
    before = private.metric(request), private.metric(job)
    assert private.post("preview", file=spoken).status_code == 200
    wait_until(lambda: private.metric(request) == before[0] + 1, "the request is counted, once it is over")
    assert private.metric(job) == before[1] + 1
    assert private.metric("ideaw_jobs_waiting") == private.metric("ideaw_workers_busy") == 0


REFUSED: list[tuple[str, dict[str, str], dict[str, bytes], int, str]] = [
    ("embed", {"message": "hey"}, {}, 400, "file"),
    ("embed", {}, {"file": b"speech"}, 400, "message"),
    ("embed", {"message": ""}, {"file": b"speech"}, 400, "message"),
    ("embed", {"message": "hey", "snr": "nan"}, {"file": b"speech"}, 400, "snr"),
    ("embed", {"message": "hey", "snr": "38", "audibility": "-2"}, {"file": b"speech"}, 400, "one of them"),
    ("embed", {"message": "hey", "snr": "1000"}, {"file": b"speech"}, 400, "snr"),
    ("embed", {"message": "hey", "kind": "hex"}, {"file": b"speech"}, 400, "hexadecimal"),
    ("embed", {"message": "hey", "colour": "red"}, {"file": b"speech"}, 400, "colour"),
    ("embed", {"message": "a message far too long for three seconds"}, {"file": b"speech"}, 400, "seconds"),
    ("embed", {"message": "hey"}, {"file": b"speech", "key": b"no key"}, 400, "key"),
    ("embed", {"message": "hey"}, {"file": b"These are words."}, 415, "not an audio file"),
    ("embed", {"message": "hey"}, {"file": b""}, 415, "empty"),
    ("embed", {"message": "hey"}, {"file": b"silence"}, 422, "silent"),
    ("embed", {"message": "hey"}, {"file": b"short"}, 422, "at least 0.5 s"),
    ("preview", {}, {"file": b"nothing"}, 422, "no samples"),
    ("attack", {"attack": "noise"}, {"file": b"nothing"}, 422, "no samples"),
    ("compare", {}, {"original": b"nothing", "marked": b"nothing"}, 422, "no samples"),
    ("detect", {"speeds": "warp"}, {"file": b"speech"}, 400, "speeds"),
    ("detect", {}, {"file": b"RIFF\0\0\0\0WAVE"}, 415, "damaged"),
    ("attack", {"attack": "../secret"}, {"file": b"speech"}, 400, "attack"),
    ("compare", {}, {"original": b"speech"}, 400, "marked"),
    ("compare", {}, {"original": b"speech", "marked": b"silence"}, 422, "only equal ones"),
]


@pytest.mark.parametrize(("route", "data", "files", "status", "says"), REFUSED)
def test_what_cannot_be_done_is_refused_in_one_line(
    private: Running, spoken: Path, route: str, data: dict[str, str], files: dict[str, bytes], status: int, says: str
) -> None:
    made = {b"silence": np.zeros(32_000), b"short": np.ones(4_000), b"nothing": np.zeros(0)}
    stands_for = {b"speech": spoken.read_bytes()} | {content: wav(samples) for content, samples in made.items()}
    sent = {name: (f"{name}.wav", stands_for.get(content, content)) for name, content in files.items()}
    answer = private.post(route, data, **(sent or {"unused": ("none", b"")}))
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    assert says in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
    assert str(private.temporary) not in answer.text


def wav(samples: NDArray[np.float64]) -> bytes:
    file = io.BytesIO()
    sf.write(file, samples, 16_000, format="WAV")
    return file.getvalue()


def test_a_field_that_may_be_given_once_is_refused_twice(private: Running, spoken: Path) -> None:
    form = [("file", ("a.wav", spoken.read_bytes())), ("file", ("b.wav", spoken.read_bytes()))]
    answer = private.client.post("/v1/detect", files=form)
    assert (answer.status_code, "2 times" in answer.json()["error"]) == (400, True)


def test_what_is_not_there_is_named(private: Running) -> None:
    for method, path, status in (("GET", "/v2", 404), ("GET", "/v1/embed", 405), ("POST", "/health", 405)):
        answer = private.client.request(method, path)
        assert answer.status_code == status
        assert path in answer.json()["error"]
    assert private.client.get("/static/../app.py").status_code == 404
    assert private.client.get("/static/%2e%2e/app.py").status_code == 404
    assert private.client.get("/docs").status_code == 404


def test_the_page_is_served_with_a_strict_policy(private: Running) -> None:
    page = private.client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert all(looser not in policy for looser in ("script-src", "style-src", "connect-src", "unsafe", "data:", "*"))
    assert private.client.get("/static/page.css").headers["content-type"].startswith("text/css")


HOSTILE_NAMES = {
    "../../../etc/passwd.wav": "passwd-marked.wav",
    "..\\..\\windows\\system.wav": "system-marked.wav",
    "/tmp/absolute.wav": "absolute-marked.wav",
    "..": "audio-marked.wav",
    'quote".wav': None,
    "new\nline\r\nSet-Cookie: a=b.wav": None,
    "Größe 🎵.wav": None,
    "x" * 300 + ".wav": "x" * 100 + "-marked.wav",
    "%00.wav": "00-marked.wav",
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "expected"), HOSTILE_NAMES.items())
def test_names_of_uploads_lead_nowhere(private: Running, spoken: Path, name: str, expected: str | None) -> None:
    answer = private.post("embed", {"message": "hey"}, file=(name, spoken.read_bytes()))
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    header = answer.headers["content-disposition"]
    assert not {"/", "\\", "\n", "\r", ".."} & set(name_in(answer)) - {"."}
    assert ".." not in name_in(answer)
    assert expected is None or name_in(answer) == expected
    assert "filename*=UTF-8''" in header
    assert [path for path in private.temporary.rglob("*") if path not in private.folders] == []
