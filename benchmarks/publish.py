"""Cut the README's tables and the cards' numbers from what the benchmarks measured.

    for model in 46+10 22+10 10+10; do
        ideaw bench segments --data DIR --model $model --others --json docs/results/segments-$model.json
    done
    for recipe in ablation-reference ablation-discriminator ablation-no-balance ablation-single-stage; do
        ideaw export runs/$recipe models/$recipe --snr 38
        ideaw bench segments --data DIR --model models/$recipe --limit 372 --json docs/results/segments-$recipe.json
    done
    ideaw bench quality --data DIR --json docs/results/quality-46+10.json
    ideaw bench levels --data DIR --json docs/results/levels-46+10.json --plot docs/results/levels-46+10.png
    ideaw bench files --data DIR --json docs/results/files-46+10.json
    python benchmarks/stereo_clips.py DIR/index.csv clips
    ideaw bench files --data clips --json docs/results/files-stereo.json
    ideaw bench unmarked --data DIR --json docs/results/unmarked-46+10.json
    ideaw bench locating --json docs/results/locating-46+10.json --plot docs/results/locating-46+10.png
    for preset in rawbench-loose rawbench-strict audiomarkbench edits security; do
        ideaw bench $preset --data DIR --limit 12 --out docs/results/$preset
    done
    make peers && python benchmarks/speed.py --json docs/results/speed.json
    python benchmarks/publish.py

What has not been measured yet, and what the README has no markers for, is passed over. A test fails when README or
cards differ from the results.
"""

import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

from ideaw.bench.tables import paper_values

ROOT = Path(__file__).parent.parent
MODELS = ("46+10", "22+10", "10+10")
SHOWN = "46+10"
"""The model of which everything is measured."""

STEREO = "stereo"
"""The same model, on clips that `stereo_clips.py` made."""

ABLATIONS = {
    "ablation-reference": "the reference: no discriminator (M1)",
    "ablation-discriminator": "with the discriminator (the paper's full model)",
    "ablation-no-balance": "without the balance block (M2, no discriminator either)",
    "ablation-single-stage": "one stage, 56 bits, no locating code",
}
"""Recipe → what it is; all were trained alike."""

PROTOCOLS = ("rawbench-loose", "rawbench-strict", "audiomarkbench", "edits")
"""Presets whose reports are in the README."""

HARDEST = 4
"""Attacks of a protocol that are named."""

PEERS = {
    "AudioSeal": "AudioSeal has random weights here; its speed is the same.",
    "WavMark": "So has WavMark, of which ten windows and two chunks are timed, and the file is calculated from these.",
    "Perth": "Perth tells that a mark is there, and carries no message.",
    "SilentCipher": "SilentCipher, with random weights too, works at 44.1 kHz.",
    "audiowmark": "audiowmark has no network.",
}
"""What must be known about a peer's times."""


def results(kind: str, names: Iterable[str] = MODELS) -> dict[str, dict[str, Any]]:
    """Model → what a benchmark measured of it."""
    paths = {name: ROOT / "docs/results" / f"{kind}-{name}.json" for name in names}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def readme(text: str) -> str:
    """The README with the results between its markers."""
    sections = {
        "segments": _segments,
        "others": _others,
        "ablations": _ablations,
        "quality": _quality,
        "files": _files,
        "unmarked": _unmarked,
        "locating": _locating,
        "speed": _speed,
        "protocols": _protocols,
    }
    for name, section in sections.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
        lines = section() if begin in text else None
        if lines is not None:
            head, rest = text.split(begin)
            text = head + begin + "\n".join([*lines, ""]) + end + rest.split(end)[1]
    return text


def card(text: str, name: str) -> str:
    """A card with the numbers of its model on it."""
    measured = results("segments")[name]
    numbers = {
        "segments": {row["label"]: round(row["accuracy"], 2) for row in measured["rows"]},
        "other_attacks": {row["label"]: round(row["accuracy"], 2) for row in measured["others"]},
    }
    quality = results("quality").get(name)
    if quality:
        numbers["quality"] = {kind: _rounded(values) for kind, values in quality["by_kind"].items()}
    return json.dumps(json.loads(text) | numbers, indent=2) + "\n"


def _segments() -> list[str] | None:
    tables = results("segments")
    if not tables:
        return None
    any_table = next(iter(tables.values()))
    labels = [row["label"] for row in any_table["rows"]]
    lines = [f"| % of bits right | SNR | {' | '.join(labels)} |", "| --- " * (len(labels) + 2) + "|"]
    for name, table in tables.items():
        ours = [("all", [row["accuracy"] for row in table["rows"]])]
        ours += [(kind, [row["by_kind"][kind] for row in table["rows"]]) for kind in table["rows"][0]["by_kind"]]
        for what, values in ours:
            cells = " | ".join(f"{value:.2f}" for value in values)
            lines.append(f"| **{name}**, {what} | ≥ {table['snr']:g} dB | {cells} |")
        cells = " | ".join(f"{row['paper']:.2f}" for row in table["rows"])
        lines.append(f"| the paper's {name} | {paper_values.MODELS[name].snr} dB | {cells} |")
    lowest = min(table["lowest_snr"] - table["snr"] for table in tables.values())
    counts = ", ".join(str(table["segments"]) for table in tables.values())
    return [
        *lines,
        "",
        f"`ideaw bench segments --data DIR --model NAME`: {counts} seconds of speech and music",
        "above −40 dBFS, unseen in training, each marked with random bits at the SNR given or above",
        f"(the lowest of any segment is {abs(lowest):.2f} dB off), location known, code and message bits together.",
        "GN noise at 35 dB, LF low-pass 5 kHz, CP MP3 64 kbit/s, QZ 2⁹ levels, RD 0.1 % of samples dropped,",
        "RS resampled to 200 % and back, AM × 0.9, TS stretched to 90 % and back by a phase vocoder. The paper's",
        "rows are of its own audio (VCTK and FMA), which could not be had here, and its SNR is an average.",
    ]


def _others() -> list[str] | None:
    measured = results("segments").get(SHOWN)
    if measured is None:
        return None
    rows = measured["others"]
    half = -(-len(rows) // 2)
    lines = []
    for some in (rows[:half], rows[half:]):
        cells = [f"{row['accuracy']:.2f}" for row in some]
        lines += [f"| {' | '.join(row['label'] for row in some)} |", "| --- " * len(some) + "|"]
        lines += [f"| {' | '.join(cells)} |", ""]
    return [*lines, "The same segments of 46+10 (`--others`): % of bits right, nothing searched for."]


def _ablations() -> list[str] | None:
    tables = results("segments", ABLATIONS)
    if not tables:
        return None
    first, *others = tables.values()
    assert all(table[what] == first[what] for table in others for what in ("snr", "segments"))
    labels = [row["label"] for row in first["rows"]]
    lines = [f"| % of bits right | {' | '.join(labels)} |", "| --- " * (len(labels) + 1) + "|"]
    for name, table in tables.items():
        cells = " | ".join(f"{row['accuracy']:.2f}" for row in table["rows"])
        lines.append(f"| {ABLATIONS[name]} | {cells} |")
    return [
        *lines,
        "",
        f"`ideaw bench segments --model FOLDER --data DIR --limit {first['segments']}`, every segment at "
        f"{first['snr']:g} dB. All were",
        "trained alike (`recipes/ablation-*.yaml`): 2,400 steps, six to seven minutes of one H200 each. So these rows",
        "are to be compared with each other, and not with those above.",
    ]


def _quality() -> list[str] | None:
    measured = results("quality").get(SHOWN)
    if measured is None:
        return None
    heads = ["SNR", "PESQ", "lowest PESQ", "STOI", "ViSQOL", "noise to mask", "masked"]
    lines = [f"| 46+10 at {measured['snr']:g} dB | files | {' | '.join(heads)} |", "| --- " * (len(heads) + 2) + "|"]
    sides = measured["by_kind"] | {f"{kind}, MP3 instead": values for kind, values in measured["mp3"].items()}
    for what, values in sides.items():
        shown = _rounded(values) | {
            "noise to mask": f"{values['noise to mask']:+.1f} dB",
            "masked": f"{values['masked']:.0f} %",
        }
        lines.append(f"| {what} | {values['files']:.0f} | {' | '.join(str(shown[name]) for name in heads)} |")
    return [
        *lines,
        "",
        "`ideaw bench quality --data DIR --limit N`: whole files, means over them. Masked is the share of moments and",
        "half Barks in which the difference lies below the masking curve of the audio (Johnston's, played at 96 dB SPL",
        "full scale), noise to mask how far it lies above on average. MP3 at 64 kbit/s, for mono, stands beside it.",
    ]


def _files() -> list[str] | None:
    measured = results("files", (SHOWN, STEREO))
    if set(measured) != {SHOWN, STEREO}:
        return None
    mono, stereo = measured[SHOWN], measured[STEREO]
    rows = [
        f"| {row['label']} | {_right(row)} | {_right(other)} | {row['wrong'] + other['wrong']} |"
        for row, other in zip(mono["rows"], stereo["rows"], strict=True)
    ]
    places = [f"{place['overlap']:.2f} of {place['seconds']:g} s" for place in mono["places"]]
    return [
        "| what was done | % right, 95 % | stereo tracks | wrong |",
        "| --- | --- | --- | --- |",
        *rows,
        "",
        f"`ideaw bench files --data DIR`: clips of {mono['seconds']:g} s, 44.1 kHz stereo, marked at "
        f"{mono['snr']:g} dB",
        "with a text of four letters, searched with `detect` as it is. Right is the whole text; wrong is any",
        f"other, counted in both. Bitrates are of both channels. Of {mono['clips']} mono files the second channel is",
        f"the first, a little quieter and later; the {stereo['clips']} stereo tracks are recordings of such music",
        "(`benchmarks/stereo_clips.py`). Of clips that are marked in one place only, intersection over union of",
        f"what is found: {', '.join(places)}.",
    ]


def _right(row: dict[str, Any]) -> str:
    return f"{100 * row['right'] / row['clips']:.1f} ({_percents(row['right_interval'])})"


def _unmarked() -> list[str] | None:
    measured = results("unmarked").get(SHOWN)
    if measured is None:
        return None
    enough = [level for level in measured["levels"] if level["p_value"] >= (measured["checked_to"] or 1)]
    shares = ", ".join(f"{level['share']:.2g} below {level['p_value']:g}" for level in enough) or "too few to say"
    return [
        f"False alarms: {measured['found']} in {measured['searches']:,} searches of audio without marks, "
        f"{measured['hours']:.1f} hours,",
        f"as it is and attacked, for {measured['keys']} keys at once (`ideaw bench unmarked --data DIR`). Measured is",
        f"thus at most one in {1 / measured['highest']:,.0f} searches (95 %), and how many p-values are small:",
        f"{shares}.",
        f"One in {1 / measured['allowed']:,.0f} files, and in {measured['allowed_hours']:,} hours, is calculated, by a "
        "bound that needs no fit.",
    ]


def _locating() -> list[str] | None:
    measured = results("locating").get(SHOWN)
    if measured is None:
        return None
    heads = ("file", "marked from", "ours", "the paper's search", "single stage", "ours, whole file")
    lines = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for row in measured["rows"]:
        begin = "not marked" if row["begin"] is None else f"{row['begin']:g} s"
        cells = [f"{row['seconds']:g} s", begin]
        for name, took in row["took"].items():
            ratio = f" ({_times(row['times_ours'][name])})" if name in row["times_ours"] else ""
            cells.append(f"{took:.2f} s{ratio}{'' if row['right'][name] else ', wrong'}")
        lines.append(f"| {' | '.join(cells)} |")
    single = "the ablation above, in eight bits as ours" if measured["single"] else "both stages of ours"
    return [
        *lines,
        "",
        "`ideaw bench locating`: one thread, medians in one run, no other speeds tried. The paper's search, with our",
        f"network, reads the code in a window of a second every {measured['step']:g} s and stops at the first mark;",
        f"single stage ({single}) reads code and message in each.",
        "Ours stops at the first mark too (`detect_stream`), or goes through the whole file and finds every mark.",
    ]


def _speed() -> list[str] | None:
    path = ROOT / "docs/results/speed.json"
    if not path.exists():
        return None
    measured = json.loads(path.read_text())
    times = [each for each in measured["times"] if each["audio"] == "mono"]
    systems = list(measured["size"])
    lengths, threads = (sorted({each[what] for each in times}) for what in ("seconds", "threads"))
    tasks = list(dict.fromkeys(each["task"] for each in times if each["system"] == systems[0]))
    took = {(each["system"], each["task"], each["seconds"], each["threads"]): each for each in times}
    lines = [f"| 16 kHz mono | threads | {' | '.join(systems)} |", "| --- " * (len(systems) + 2) + "|"]
    for task, seconds, number in product(tasks, lengths, threads):
        cells = [f"{took[systems[0], task, seconds, number]['wall']:.2f} s"]
        for peer in systems[1:]:
            theirs = took.get((peer, "embed" if task == "embed" else "detect, marked", seconds, number))
            cells.append(_times(theirs["times_ours"][task]) if theirs else "–")
        lines.append(f"| {task}, {seconds:g} s | {number} | {' | '.join(cells)} |")
    imports = [measured["imports"].get(system) for system in systems]
    lines.append(f"| import | | {' | '.join('–' if each is None else f'{each:.1f} s' for each in imports)} |")
    for task in ("embed", "detect"):
        peaks = [measured["peak"][system].get(task) for system in systems]
        cells = [f"{peak / 1e6:,.0f} MB" if peak else "–" for peak in peaks]
        lines.append(f"| memory, {task} {lengths[-1]:g} s | | {' | '.join(cells)} |")
    sizes = " | ".join(f"{measured['size'][system] / 1e6:,.0f} MB" for system in systems)
    lines.append(f"| installed | | {sizes} |")
    commands = ", ".join(f"`{name}` {seconds:.2f} s" for name, seconds in measured["commands"].items())
    return [
        *lines,
        "",
        f"`make peers`, `python benchmarks/speed.py`: all in one run, taking turns; × is of ours. {commands}.",
        *(PEERS[peer] for peer in systems[1:]),
    ]


def _protocols() -> list[str] | None:
    paths = {name: ROOT / "docs/results" / name / "metrics.json" for name in PROTOCOLS}
    tables = {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}
    if not tables:
        return None
    heads = ("attacks", "all messages right", "message right, on average", "hardest attacks", "false alarms")
    lines = [f"| | clips | {' | '.join(heads)} |", "| --- " * (len(heads) + 2) + "|"]
    for name, table in tables.items():
        right = {row["label"]: row["exact"]["value"] for row in table["rows"]}
        hardest = sorted((share, label) for label, share in right.items() if share < 1)[:HARDEST]
        cells = [
            str(table["clips"]),
            str(len(right)),
            str(sum(share == 1 for share in right.values())),
            f"{100 * sum(right.values()) / len(right):.1f} %",
            "; ".join(f"{label}: {100 * share:.0f} %" for share, label in hardest) or "none",
            str(sum(round(row["alarms"]["value"] * row["clips"]) for row in table["rows"])),
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return [
        *lines,
        "",
        "`ideaw bench NAME --data DIR --limit N --out docs/results/NAME` of 46+10 at 38 dB; every row, with intervals,",
        "is in `docs/results/NAME/report.csv`.",
    ]


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} ×" if ratio >= 10 else f"{ratio:.2g} ×"


def _percents(shares: list[float]) -> str:
    return f"{100 * shares[0]:.1f}–{100 * shares[1]:.1f}"


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3 if name == "STOI" else 2) for name, value in values.items()}


def main() -> None:
    """Bring README and cards up to the results."""
    path = ROOT / "README.md"
    path.write_text(readme(path.read_text()))
    for name in results("segments"):
        path = ROOT / "src/ideaw/models" / name / "card.json"
        path.write_text(card(path.read_text(), name))


if __name__ == "__main__":
    main()
