"""The contract beside the audio: arguments that make no sense, secrets, copies of a marker, forks."""

import copy
import dataclasses
import multiprocessing
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

import ideaw

RATE = 16_000
SECRET = bytes(range(100, 132))


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load(threads=1)


@pytest.fixture(scope="module")
def keyed() -> ideaw.Marker:
    return ideaw.load(key=ideaw.Key(SECRET), threads=1)


@pytest.mark.parametrize("arguments", [{"threads": 0}, {"threads": -1}, {"key": "secret"}, {"key": SECRET.hex()}])
def test_a_marker_with_nonsense_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ideaw.IdeawError) as problem:
        ideaw.load(**arguments)
    assert "\n" not in str(problem.value)
    assert SECRET.hex() not in str(problem.value)


def test_unknown_speeds_are_refused(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    with pytest.raises(ideaw.IdeawError, match="far") as problem:
        marker.detect(speech, RATE, speeds="far")  # type: ignore[arg-type]
    assert "near" in str(problem.value)


@pytest.mark.parametrize("rate", ["24000", None, float("nan"), 44_100.5])
def test_what_is_no_rate_is_refused(marker: ideaw.Marker, speech: NDArray[np.float32], rate: Any) -> None:
    for call in (lambda: marker.embed(speech, rate, "ok"), lambda: marker.detect(speech, rate)):
        with pytest.raises(ideaw.AudioError) as problem:
            call()
        assert "\n" not in str(problem.value)


@pytest.mark.slow
def test_a_result_names_the_key_and_does_not_hold_it(keyed: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    detection = keyed.detect(keyed.embed(speech, RATE, "ok"), RATE)
    assert detection.found
    assert detection.key == ideaw.Key(SECRET).fingerprint
    assert {segment.key for segment in detection.segments} == {ideaw.Key(SECRET).fingerprint}
    texts = (repr(detection), str(detection), repr(dataclasses.asdict(detection)))
    assert not any(SECRET.hex() in text or repr(SECRET)[2:-1] in text for text in texts)
    assert SECRET not in pickle.dumps(detection)
    assert pickle.loads(pickle.dumps(detection)) == detection


@pytest.mark.slow
def test_the_status_of_an_answer(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    assert marker.detect(marker.embed(speech, RATE, "ok"), RATE).status == "found"
    assert marker.detect(speech, RATE).status == "none"


def test_a_key_is_not_shown_and_not_pickled() -> None:
    key = ideaw.Key(SECRET)
    assert SECRET.hex() not in repr(key) + str(key) + f"{key}"
    assert len(key.fingerprint) == 16
    with pytest.raises((TypeError, pickle.PicklingError, ideaw.IdeawError)):
        pickle.dumps(key)


@pytest.mark.slow
def test_a_marker_is_copied_and_pickled(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    marked = marker.embed(speech, RATE, "ok")
    for twin in (pickle.loads(pickle.dumps(marker)), copy.copy(marker), copy.deepcopy(marker)):
        assert twin.card == marker.card
        np.testing.assert_array_equal(twin.embed(speech, RATE, "ok"), marked)


@pytest.mark.slow
def test_a_secret_key_does_not_leave_the_process_with_its_marker(
    keyed: ideaw.Marker, speech: NDArray[np.float32]
) -> None:
    with pytest.raises(TypeError, match="key") as problem:
        pickle.dumps(keyed)
    assert "\n" not in str(problem.value)
    assert SECRET.hex() not in str(problem.value)
    marked = keyed.embed(speech, RATE, "ok")
    assert copy.copy(keyed).detect(marked, RATE).message == "ok"
    assert copy.deepcopy(keyed).detect(marked, RATE).message == "ok"


def _detect(marker: ideaw.Marker, marked: NDArray[np.float32], answers: Any) -> None:
    answers.put(marker.detect(marked, RATE).message)


@pytest.mark.slow
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_from_a_busy_parent_works(marker: ideaw.Marker, speech: NDArray[np.float32]) -> None:
    marked = marker.embed(speech, RATE, "ok")
    assert marker.detect(marked, RATE).found  # a fork within an import would find the import's lock taken
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            marker.detect(marked, RATE)

    busy = [threading.Thread(target=work) for _ in range(3)]
    for thread in busy:
        thread.start()
    try:
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        children = [context.Process(target=_detect, args=(marker, marked, answers), daemon=True) for _ in range(8)]
        for child in children:
            child.start()
        assert [answers.get(timeout=60) for _ in children] == ["ok"] * len(children)
    finally:
        done.set()
        for child in children:
            child.kill()
        for thread in busy:
            thread.join()


def test_a_file_that_is_longer_than_allowed_is_refused(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    soundfile.write(tmp_path / "speech.wav", speech, 16_000)
    with pytest.raises(ideaw.AudioError, match="longer than the 2 s"):
        ideaw.detect_file(tmp_path / "speech.wav", longest=2)
    with pytest.raises(ideaw.AudioError, match="longer than the 2 s"):
        ideaw.load().embed_file(tmp_path / "speech.wav", tmp_path / "marked.wav", "ok", longest=2)
    assert not (tmp_path / "marked.wav").exists()
