"""Fragments, README and cards show what was measured; a table appears once its benchmark was run."""

import dataclasses
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ideaw.bench.tables import files, lengths, locating, segments, unmarked
from ideaw.models import model_names

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
publish, result_tables, evidence_tables = (
    importlib.import_module(name) for name in ("publish", "result_tables", "evidence_tables")
)
sys.path.pop(0)

OWN = {"system": "ideaw", "audio": "mono", "seconds": 10, "times_ours": {}}
PEER = OWN | {"system": "AudioSeal", "threads": 1}
SPEED = {
    "times": [
        OWN | {"task": "embed", "threads": 1, "wall": 0.5},
        OWN | {"task": "embed", "threads": 2, "wall": 0.3},
        OWN | {"task": "detect, marked", "threads": 2, "wall": 0.1},
        OWN | {"task": "detect, marked", "threads": 1, "wall": 0.2},
        PEER | {"task": "embed", "wall": 1.0, "times_ours": {"embed": 2.0}},
    ],
    "imports": {"ideaw": 0.2, "AudioSeal": 3.0},
    "commands": {"ideaw --help": 0.25},
    "peak": {"ideaw": {"embed": 1.5e8}, "AudioSeal": {}},
    "size": {"ideaw": 150_000_000, "AudioSeal": 800_000_000},
}


def test_fragments_demo_evidence_readme_and_cards_show_the_results() -> None:
    assert set(publish.results("segments")) == set(model_names())
    for name in publish.FRAGMENTS:
        path = ROOT / "docs/results/tables" / f"{name}.md"
        assert (path.read_text() if path.exists() else None) == publish.fragment(name), name
    assert publish.DEMO_FILE.read_text() == publish.demo_tables()
    assert evidence_tables.FILE.read_text() == evidence_tables.figures()
    readme = (ROOT / "README.md").read_text()
    assert publish.readme(readme) == readme
    for name in model_names():
        card = (ROOT / "src/ideaw/weights" / name / "card.json").read_text()
        assert publish.card(card, name) == card


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "docs/results").mkdir(parents=True)
    monkeypatch.setattr(result_tables, "ROOT", tmp_path)
    return tmp_path


def fragment(root: Path, name: str, result: Any, file: str) -> str | None:
    """The text of a fragment once its result lies in `file`; there is none before."""
    assert publish.fragment(name) is None
    content = dataclasses.asdict(result) if dataclasses.is_dataclass(result) else result
    (root / "docs/results" / file).parent.mkdir(exist_ok=True)
    (root / "docs/results" / file).write_text(json.dumps(content))
    text = publish.fragment(name)
    assert text is None or isinstance(text, str)
    return text


def test_ablations(root: Path) -> None:
    row = segments.Row("mp3", "CP", 99.64, {"music": 99.3}, 99.0)
    table = segments.Table("46+10", 56, 372, 38.0, 38.0, 38.0, [row], [])
    text = fragment(root, "ablations", table, "segments-ablation-no-balance.json") or ""
    assert "| without the balance block (M2, no discriminator either) | 99.64 |" in text
    assert "M1" not in text
    assert "372 segments" in text


def estimate(value: float) -> dict[str, float]:
    return {"value": value, "low": 0.0, "high": 1.0}


QUALITY = {"SNR": 38.2, "PESQ": 4.5, "lowest PESQ": 4.0, "STOI": 0.999, "ViSQOL": 4.9, "noise to mask": -3.5}
QUALITY |= {"files": 50.0, "masked": 91.6, "lowest SNR": 38.0}


def test_quality_as_it_was_measured_without_onsets(root: Path) -> None:
    table = {"snr": 38.0, "by_kind": {"music": QUALITY}, "mp3": {"music": QUALITY}}
    text = fragment(root, "quality", table, "quality-46+10.json") or ""
    assert "| 46+10 at 38 dB | files |" in text
    assert "| music | 50 | 38.2 | 4.5 | 4.0 | 0.999 | 4.9 | -3.5 dB | 92 % |" in text
    assert "| music, MP3 64 kbit/s instead |" in text
    assert "onsets" not in text


def test_quality(root: Path) -> None:
    worst = {"lowest ViSQOL": 4.8, "lowest noise to mask": -6.1, "highest noise to mask": 1.25}
    speech = QUALITY | worst | {"onsets": 64.0, "silence changed": 0.0, "before onsets": -61.76}
    music = QUALITY | worst | {"onsets": 0.0, "silence changed": 1.0}
    exact = QUALITY | worst | {"onsets": 3.0, "silence changed": 0.0}
    sides = {"by_kind": {"music": music, "speech": speech}, "mp3": {"speech": speech}, "mp3_128": {"speech": exact}}
    table = {"snr": None, "audibility": -3.0} | sides
    text = fragment(root, "quality", table, "quality-46+10.json") or ""
    assert "| 46+10 at -3 dB noise to mask | files |" in text
    assert "| lowest ViSQOL | noise to mask | masked | before onsets | silence changed |" in text
    assert "| 4.8 | -3.5 dB (-6.1 to +1.2) | 92 % | no onset | 1 of 50 |" in text
    assert "| 92 % | -61.8 dBFS (64) | 0 of 50 |" in text
    assert "| 92 % | nothing (3) | 0 of 50 |" in text
    assert "| speech, MP3 128 kbit/s instead |" in text
    assert "±" not in text


def test_quality_with_intervals(root: Path) -> None:
    values = QUALITY | {"PESQ ±": 0.021, "STOI ±": 0.0004}
    text = fragment(root, "quality", {"snr": 38.0, "by_kind": {"music": values}}, "quality-46+10.json") or ""
    assert "| 38.2 | 4.5 ± 0.02 | 4.0 | 0.999 ± 0.000 |" in text
    assert text.endswith("± is the 95 % interval of a mean over files.\n")


def test_files(root: Path) -> None:
    row = files.Row("cut to 3 s", 40, 39, 0, (0.871, 0.996), (0.0, 0.088))
    table = files.Table("46+10", 38, 40, 10.0, [row], [files.Place(1.0, 40, 40, 0.75)])
    stereo = dataclasses.replace(table, clips=20, rows=[dataclasses.replace(row, clips=20, right=18, wrong=1)])
    assert fragment(root, "files", stereo, "files-stereo.json") is None
    text = fragment(root, "files", table, "files-46+10.json") or ""
    assert "| cut to 3 s | 97.5 (87.1–99.6) | 90.0 (87.1–99.6) | 1 |" in text
    assert "40 mono files and 20 stereo tracks" in text
    assert "| 1 s | 40 of 40 (91–100 %) | 0.75 |" in publish.fragment("borders")


def test_lengths(root: Path) -> None:
    cells = [
        lengths.Cell("as it is", 0.5, 40, 30, 29, 1, 2, (0, 1), (0, 1)),
        lengths.Cell("as it is", 1.0, 39, 39, 39, 0, 0, (0, 1), (0, 1)),
    ]
    text = fragment(root, "lengths", lengths.Table("46+10", None, -3.0, cells), "lengths-46+10.json") or ""
    assert "|  | 0.5 s | 1 s |" in text
    assert "| as it is | 72 (75) | 100 |" in text
    assert "39–40 pieces a cell" in text
    assert "1 wrong messages; refused by `embed`: 2 of 0.5 s." in text


def test_unmarked(root: Path) -> None:
    levels = [unmarked.Level(p, 1, 0.001, (0, 0.01)) for p in unmarked.P_LEVELS]
    table = unmarked.Table("46+10", 500, 1000, 8, 2.5, 0, [], 0.0038, 1e-6, 10_000, 0.01, levels, [0.02])
    text = fragment(root, "unmarked", table, "unmarked-46+10.json") or ""
    assert "| false alarms | 0 | at most 1 in 263 searches (95 %) |" in text
    assert "| p-value below 0.01 | 1 |" in text
    assert "below 0.001" not in text
    assert "1 in 1,000,000 files and in 10,000 h" in text
    assert "1,000 searches" in text


def test_locating(root: Path) -> None:
    took = {locating.ONE_PASS: 1.0, locating.WINDOWS: 6.0, locating.SINGLE_STAGE: 11.0, locating.ONE_PASS_WHOLE: 2.0}
    ratios = {locating.WINDOWS: 6.0, locating.SINGLE_STAGE: 11.0}
    table = locating.Table("46+10", 3, 0.1, [locating.Row(60, None, 591, took, ratios, dict.fromkeys(took, True))])
    text = fragment(root, "locating", table, "locating-46+10.json") or ""
    assert "| 60 s | not marked | 1.00 s | 6.00 s (6 ×) | 11.00 s (11 ×) | 2.00 s |" in text


def test_protocols(root: Path) -> None:
    rows = [("crop", 1.0, 0.0), ("pitch", 0.25, 0.5), ("speed", 0.75, 0.0)]
    table = {
        "system": "ideaw 46+10",
        "snr": None,
        "audibility": -3.0,
        "clips": 4,
        "rows": [
            {"label": label, "clips": 4, "exact": {"value": exact}, "alarms": {"value": alarms}}
            for label, exact, alarms in rows
        ],
    }
    text = fragment(root, "protocols", table, "edits/metrics.json") or ""
    assert "| `edits` | -3 dB noise to mask | 4 | 3 | 1 | 66.7 % | pitch: 25 %; speed: 75 % | 2 |" in text


def test_what_attacks_cost(root: Path) -> None:
    assert "was not measured" in (publish.fragment("voice") or "")
    left = {"PESQ": {"value": 2.345}, "STOI": {"value": 0.9}}
    rows = [
        {"label": label, "clips": 4, "exact": estimate(exact), "alarms": {"value": 0.0}, "cost": cost}
        for label, exact, cost in (("clean", 1.0, {"PESQ": None, "STOI": None}), ("a call", 0.25, left))
    ]
    table = {"clips": 4, "seconds": 12, "system": "ideaw 46+10", "rows": rows, "skipped": {"Lyra": "no weights"}}
    (folder := root / "docs/results/voice").mkdir()
    (folder / "metrics.json").write_text(json.dumps(table))
    lines = (publish.fragment("voice") or "").splitlines()
    assert lines[2:4] == ["| a call | 25 % (0–100) | 2.35 | 0.90 |", "| clean | 100 % (0–100) | – | – |"]
    assert lines[-1].endswith("Lyra: no weights.")


def test_other_code(root: Path) -> None:
    row = {"benchmark": "DeepMark", "attack": "wavelets", "clips": 40, "by_hearing": 3, "fixed_snr": 5}
    result = {"seconds": 6.0, "rate": 16_000, "snr": 38.0, "rows": [row]}
    text = fragment(root, "other-code", result, "other-code.json") or ""
    assert "| benchmark | attack | level by hearing | SNR of 38 dB |" in text
    assert "| DeepMark | wavelets | 3 of 40 (3–20 %) | 5 of 40 (5–26 %) |" in text


def test_security(root: Path) -> None:
    shares = {"right": {"value": 0.0}, "wrong": {"value": 0.25}, "none": {"value": 0.75}, "kept": {"value": 0.75}}
    rows = [{"label": "wrong key", "should": "none"} | shares]
    table = {"clips": 4, "seconds": 6, "system": "ideaw 46+10", "rows": rows}
    text = fragment(root, "security", table, "security/metrics.json") or ""
    assert "| wrong key | 0 % | 25 % | 75 % | none | 75 % |" in text
    assert "4 clips" in text


def test_speed(root: Path) -> None:
    text = fragment(root, "speed", SPEED, "speed.json") or ""
    assert "| embed, 10 s | 1 | 0.50 s | 2 × |" in text
    assert "| detect, marked, 10 s | 1 | 0.20 s | – |" in text
    assert "| embed, 10 s | 2 | 0.30 s | – |" in text
    assert "| installed |  | 150 MB | 800 MB |" in text
    assert "WavMark" not in text


def test_the_comparison_says_what_was_not_measured(root: Path) -> None:
    row = files.Row("cut to 3 s", 40, 39, 0, (0.871, 0.996), (0.0, 0.088))
    edits = [dataclasses.replace(row, label=label) for labels in publish.COMPARED_EDITS.values() for label in labels]
    table = files.Table("46+10", 38, 40, 10.0, edits, [])
    alarms = unmarked.Table("46+10", 500, 1000, 8, 2.5, 0, [], 0.0038, 1e-6, 10_000, 0.01, [], [])
    own = {
        "system": "ideaw 46+10",
        "clips": 12,
        "seconds": 6,
        "quality": {"PESQ": {"value": 4.5, "low": 4.4, "high": 4.6}},
        "rows": [],
    }
    for result, file in ((SPEED, "speed"), (table, "files-46+10"), (alarms, "unmarked-46+10")):
        assert fragment(root, "comparison", result, f"{file}.json") is None
    text = fragment(root, "comparison", own, "rawbench-loose/metrics.json") or ""
    assert "| PESQ of the mark | 4.50 (4.40–4.60) | not measured |" in text
    assert "| exact message, speed ± 5 % | 97.5 % (91.3–99.3) | not measured |" in text
    assert "| embedding, one core, × real time | 20 × | 10 × |" in text
    assert "| detection of a mark, one core, × real time | 50 × | – |" in text
    shown = publish.readme("a\n<!-- comparison -->\nold\n<!-- /comparison -->\nb\n")
    assert shown == f"a\n<!-- comparison -->\n{text}<!-- /comparison -->\nb\n"
    assert publish.readme("no markers\n") == "no markers\n"


FAULTS = {"files": 2000, "workers_killed": 12, "drivers_killed": 4, "refusals": 99, "rows": 2000, "distinct": 2000}
CATALOGUE: dict[str, Any] = {
    "faults": {"ray": FAULTS | {"wrong": [], "statuses": {"found": 1882, "error": 118}}},
    "overhead": {
        "local": {
            **{"files": 2000, "seconds": 8.0, "start_cpu": 2.0, "detection_cpu": 90.0, "engine_cpu": 10.0},
            "share": 0.1,
        }
    },
    "scaling": {"files": 200, "turns": [{}], "times_one_worker": 1.9, "cpu_ratio": 1.0, "cores": 2, "load_before": 0.1},
    "listening": {
        "hours": 1.0,
        "rows": [
            {
                "marked": "nowhere",
                "file": "mp3",
                "mode": mode,
                "status": "none",
                "heard_seconds": heard,
                "cpu_seconds": cpu,
            }
            for mode, heard, cpu in (("all", 3600, 36.0), ("12 probes", 120, 9.0))
        ],
        "missed": [{"marked_seconds": 60, "trials": 20, "probes": 12, "found": 5}],
    },
    "cache": {
        **{"hours": 9.9, "keys": 1000, "bytes_per_hour": 4.4e6, "search_cpu": 270.0, "cpu_per_key": 0.27},
        **{"listening_cpu": 160.0, "false_locations": 0},
        "losses": [
            {
                **{"seconds": 12, "noise": 0.01, "files": 20},
                "listened": {"found": 19, "unreadable": 0},
                "cached": {"found": 12, "unreadable": 1},
            }
        ],
    },
}


@pytest.mark.parametrize(
    ("name", "what", "row"),
    [
        ("faults", "faults", "| ray | 12 | 4 | 99 | 2,000 | 2,000 | 0 | 118 |"),
        ("overhead", "overhead", "| local | 2.0 s | 90.0 s | 10.0 s | 10.0 % |"),
        ("scaling", "scaling", "| files in a second | 1.90 |"),
        ("listening", "listening", "| nowhere, MP3 | 12 probes | none | 120 s | 9.0 s | 75 % |"),
        ("probes", "listening", "| 60 s | 5 of 20 (11–47 %) |"),
        ("cache", "cache", "| 1,000 keys over 10 h | 270 s of CPU |"),
        ("losses", "cache", "| 12 s, noise 0.01 | 19 (+ 0 located) | 12 (+ 1 located) |"),
    ],
)
def test_catalogues(root: Path, name: str, what: str, row: str) -> None:
    assert row in (fragment(root, f"catalogue-{name}", CATALOGUE[what], f"catalogue-{what}.json") or "")


def test_a_million_hours(root: Path) -> None:
    assert fragment(root, "catalogue-paper", CATALOGUE["listening"], "catalogue-listening.json") is None
    (root / "docs/results/catalogue-overhead.json").write_text(json.dumps(CATALOGUE["overhead"]))
    # 36 s of CPU for an hour are 10,000 core-hours for a million, of which the engine takes a tenth more.
    assert "| nowhere, all | 36.0 s | 11,111 | 463 | 444 € |" in publish.fragment("catalogue-paper")
