"""Requests that nobody thought of, made from the API's own description: every answer is one that it describes."""

import io
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import schemathesis
import soundfile as sf
from hypothesis import strategies as st
from numpy.typing import NDArray
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from .conftest import PATIENCE_SECONDS, TOKEN, Running

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.slow]

CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
"""What every answer is held to; 500 is no status that is described."""

ROUTES = ("embed", "detect", "compare", "attack", "preview")
EXAMPLES = 12


def audio(samples: NDArray[np.float32], kind: str) -> bytes:
    file = io.BytesIO()
    sf.write(file, samples, 16_000, format=kind)
    return file.getvalue()


@pytest.fixture(scope="module")
def files(speech: NDArray[np.float32]) -> list[bytes]:
    """Real files, small."""
    clip = speech[: 3 * 16_000]
    return [audio(clip, kind) for kind in ("WAV", "FLAC", "MP3", "OGG")] + [audio(clip[:4_000], "WAV")]


@st.composite
def damaged(draw: st.DrawFn, files: list[bytes]) -> bytes:
    """A file as it is, or with some of its first bytes changed, or cut."""
    content = bytearray(draw(st.sampled_from(files)))
    for place, value in draw(st.lists(st.tuples(st.integers(0, 199), st.integers(0, 255)), max_size=4)):
        content[place] = value
    return bytes(content[: draw(st.sampled_from([len(content), len(content) // 2, 100]))])


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["as described", "otherwise"])
@pytest.mark.parametrize("route", ROUTES)
def test_every_answer_is_described(private: Running, files: list[bytes], route: str, mode: GenerationMode) -> None:
    schemathesis.openapi.format("binary", damaged(files) | st.binary(max_size=100))
    operation = schemathesis.openapi.from_url(f"{private.address}openapi.json")[f"/v1/{route}"]["POST"]

    @hypothesis.settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True)
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        answer = case.call(base_url=private.address, timeout=PATIENCE_SECONDS)
        case.validate_response(answer, checks=CHECKS)

    ask()
    assert private.uploads == []
    assert private.metric('ideaw_workers_replaced_total{reason="crash"}') == 0


@pytest.mark.parametrize("headers", [{}, {"Authorization": f"Bearer {TOKEN}"}], ids=["a stranger", "an owner"])
def test_what_takes_nothing_answers_as_described(guarded: Running, headers: dict[str, str]) -> None:
    description = schemathesis.openapi.from_url(f"{guarded.address}openapi.json")
    for path in ("/health", "/metrics", "/v1/info", "/v1/attacks", "/v1/sample"):
        case = description[path]["GET"].Case()
        case.validate_response(case.call(base_url=guarded.address, headers=headers), checks=CHECKS)


def test_both_kinds_of_detections_are_described(private: Running, guarded: Running, marked: Path) -> None:
    for running in (private, guarded):
        case = schemathesis.openapi.from_url(f"{running.address}openapi.json")["/v1/detect"]["POST"].Case(
            body={"file": marked.read_bytes()}, media_type="multipart/form-data"
        )
        answer = case.call(base_url=running.address)
        assert answer.json()["message"] == "hey"
        case.validate_response(answer, checks=CHECKS)
