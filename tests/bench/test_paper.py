"""`bench paper` on real audio: every row of the paper, ours where there is a model, and nothing measured twice."""

import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from ideaw.bench.cache import RECORDS_FILE
from ideaw.bench.tables import paper, paper_values
from ideaw.errors import FileError
from ideaw.models import model_folder
from tests.cli.conftest import run as command

pytestmark = pytest.mark.slow

SMALL = paper.Size(1, ((3, 0), (3, 1), (3, None)), 1)


def rows(folder: Path, name: str) -> dict[tuple[str, ...], dict[str, str]]:
    """A table as it was written, by the first cell, or the first two where a model has two rows."""
    with (folder / f"{name}.csv").open() as file:
        found = list(csv.DictReader(file))
    return {(row["model"], row["by"]) if "by" in row else (row["model"],): row for row in found}


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory, speech: NDArray[np.float32]) -> Path:
    folder = tmp_path_factory.mktemp("audio")
    sf.write(folder / "speech-a.wav", speech[32_000:64_000], 16_000)
    return folder


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, audio: Path, single: Path) -> Path:
    """What the command made, with an ablation M1, which is our own model here, and untrained models of one stage."""
    folder = tmp_path_factory.mktemp("out")
    shutil.copytree(str(model_folder("46+10")), folder / "ablations" / "ablation-reference")
    for name in ("ablation-single-stage", "baseline-wavmark"):
        shutil.copytree(single, folder / "ablations" / name)
    given = ("--data", audio, "--out", folder / "results", "--ablations", folder / "ablations")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper, "QUICK", SMALL)
        ran = command("bench", "paper", "--quick", *given)
    assert (ran.code, ran.err) == (0, "")
    assert all(part in ran.out for part in ("Table 1", "Table 4", "38.55", "M1", "Time to locate"))
    lacking, written = ran.out.splitlines()[-2:]
    assert "not measured, for want of a model folder in --ablations: DeAR (baseline-dear), M2 (" in lacking
    assert not {"M1", "WavMark"} & set(lacking.split())
    assert written.startswith(str(folder / "results" / "report.html"))
    return folder


def test_every_row_of_the_paper_has_ours_beside_it_where_there_is_a_model(out: Path) -> None:
    basics, attacked = rows(out / "results", "table-1"), rows(out / "results", "table-2")
    assert [name for (name,) in basics] == list(paper_values.MODELS)
    assert basics["46+10",]["SNR, the paper's"] == "35.41"
    assert float(basics["46+10",]["SNR, ours"]) == pytest.approx(38, abs=0.01)
    assert float(basics["22+10",]["capacity, ours"]) == 32
    assert basics["DeAR",]["ACC, ours"] == ""
    assert attacked["46+10", "the paper's"]["TS"] == "98.66"
    assert float(attacked["10+10", "ours"]["clean"]) > 90
    assert float(basics["WavMark",]["capacity, ours"]) == 56
    assert float(attacked["WavMark", "ours"]["clean"]) > 90  # a strong mark is read untrained
    assert ("DeAR", "ours") not in attacked
    ablations = rows(out / "results", "table-4")
    assert list(ablations) == [
        ("M1", "ours"),
        ("M1", "the paper's"),
        ("M2", "the paper's"),
        ("full", "the paper's"),
    ]
    assert ablations["M1", "ours"] | {"model": "46+10"} == attacked["46+10", "ours"]


def test_figures_are_drawn_and_heard(out: Path) -> None:
    results = out / "results"
    for name in ("locating", "waveforms", "spectrograms"):
        assert (results / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = (results / "report.html").read_text()
    assert page.count("<audio") == 8
    assert "VCTK and FMA, which could not be had" in page
    with (results / "locating.csv").open() as file:
        searches = list(csv.DictReader(file))
    assert [row["marked from"] for row in searches] == ["0 s", "1 s", "nowhere"]
    assert {row["the paper's, %"] for row in searches} == {"40–50"}
    assert "a single stage (56+0) reads" in page


def test_what_is_measured_is_kept(out: Path, audio: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(out / "results", results)
    file = results / RECORDS_FILE
    records = [json.loads(line) for line in file.read_text().splitlines()]
    for record in records:
        record["result"]["model"] = "kept"
        if record["name"] == "segments 22+10":
            del record["result"]["bits"]  # as if another version had written it
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    paper.run(audio, results, SMALL, out / "ablations")
    again = json.loads((results / "metrics.json").read_text())
    models = {name: part["result"]["model"] for name, part in again.items()}
    assert models == {record["name"]: "kept" for record in records} | {"segments 22+10": "22+10"}


def test_other_audio_and_other_weights_are_told_apart(audio: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(audio, tmp_path / "audio"))
    sf.write(copied / "speech-b.wav", sf.read(audio / "speech-a.wav")[0], 16_000)
    assert paper.describe_audio(copied)["audio"] != paper.describe_audio(audio)["audio"]
    model = Path(shutil.copytree(str(model_folder("46+10")), tmp_path / "46+10"))
    card = json.loads((model / "card.json").read_text())
    (model / "card.json").write_text(json.dumps(card | {"segments": {}}))  # results on a card are no other model
    assert paper.describe_model(str(model)) == paper.describe_model("46+10")
    assert paper.describe_model("22+10")["weights"] == paper.describe_model("46+10")["weights"]
    (model / "read.onnx").write_bytes((model / "locate.onnx").read_bytes())
    assert paper.describe_model(str(model)) != paper.describe_model("46+10")


def test_what_cannot_be_measured_is_one_line(tmp_path: Path, audio: Path) -> None:
    with pytest.raises(FileError, match="not a folder of model folders"):
        paper.run(audio, tmp_path / "out", SMALL, tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="is a file"):
        paper.run(audio, tmp_path / "file", SMALL)
    ran = command("bench", "paper", "--data", tmp_path / "none", "--out", tmp_path / "out")
    assert (ran.code, ran.out, ran.err.count(os.linesep)) == (2, "", 1)
    assert not (tmp_path / "out").exists()
