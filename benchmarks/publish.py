"""Generate the tables of the documentation and the figures on the model cards from the measured JSON files.

    make results CLIPS=DIR STEREO=DIR FULL_RATE=DIR UNMARKED=DIR LYRA=DIR    # nearly all: benchmarks/make_results.py
    for recipe in ablation-reference ablation-discriminator ablation-no-balance ablation-single-stage; do
        ideaw export runs/$recipe models/$recipe --snr 38
        ideaw bench segments --data DIR --model models/$recipe --limit 372 --json docs/results/segments-$recipe.json
    done
    python benchmarks/publish.py

Each fragment docs/results/tables/NAME.md is one table and one line with the command, the number of trials, and how wide
intervals are where the table does not say it. The README shows the fragment "comparison" between its markers, and the
package carries those that the demo shows, and those that `ideaw evidence` reports with their age. Sentences are written
by hand, in the pages that include the fragments. What has not been measured is left out; a test fails when
fragments, demo, README or cards differ from the JSON.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial

import attack_tables
import catalogue_tables
import deep_tables
import evidence_tables
import file_tables
import make_results
import provenance_tables
import result_tables as tables
import stream_tables
import verdict_tables
from intervals import interval
from result_tables import Result, markdown, protocol_results, results, speed_results

from ideaw.payload.message import layout

PAYLOADS = {
    "AudioSeal": "16 bits in a clip",
    "WavMark": "16 (and a pattern of 16)",
    "Perth": "none: tells that a mark is there",
    "SilentCipher": "40 bits in a clip",
    "audiowmark": "128 bits in a clip",
}
"""What a peer carries, by its own documentation."""

COMPARED_EDITS = {
    "clean": ("clean",),
    "MP3 64 kbit/s": ("CP",),
    "AAC 64 kbit/s": ("AAC 64",),
    "noise, 35 dB": ("GN",),
    "cut to 3 s": ("cut to 3 s",),
    "speed ± 5 %": ("speed 95 %", "speed 105 %"),
}
"""Rows of the comparison → edits of `ideaw bench files`."""

COMPARED_PROTOCOL = "rawbench-loose"
"""The preset that is run for peers too, as docs/results/PRESET-PEER."""

NOT_MEASURED, NO_MESSAGE = "not measured", "carries no message"


def comparison_table() -> list[str] | None:
    """ideaw beside the peers that were timed; a peer without its weights can be timed, and nothing else."""
    speed, files = speed_results(), results("files", (tables.DEFAULT, tables.STEREO))
    unmarked, own = (
        results("unmarked").get(tables.DEFAULT),
        protocol_results([COMPARED_PROTOCOL]).get(COMPARED_PROTOCOL),
    )
    if speed is None or not files or unmarked is None or own is None:
        return None
    ours, *peers = speed["size"]
    folders = {peer: f"{COMPARED_PROTOCOL}-{peer.lower()}" for peer in peers}
    measured = {peer: table for peer, folder in folders.items() if (table := protocol_results([folder]).get(folder))}
    clips = sum(table["clips"] for table in files.values())
    counts = ", ".join(f"{name} {table['clips']}" for name, table in ({ours: own} | measured).items())

    def with_peers(cell: str, peer_cell: Callable[[Result], str]) -> list[str]:
        return [cell, *(peer_cell(measured[peer]) if peer in measured else NOT_MEASURED for peer in peers)]

    def exact_share(edits: Sequence[str]) -> str:
        rows = [row for table in files.values() for row in table["rows"] if row["label"] in edits]
        right, clips = (sum(row[count] for row in rows) for count in ("right", "clips"))
        return f"{100 * right / clips:.1f} % ({interval(right, clips, 1)})"

    def peer_exact(label: str) -> Callable[[Result], str]:
        def cell(table: Result) -> str:
            row = next((row for row in table["rows"] if row["label"] == label), None)
            if row is not None and row["exact"] is not None:
                return tables.percent_with_interval(row["exact"])
            seen = f"; mark seen: {tables.percent_with_interval(row['seen'])}" if row is not None else ""
            return NO_MESSAGE + seen

        return cell

    def real_time(task: str) -> list[str]:
        walls = {time["system"]: time for time in _longest_on_one_thread(speed, task)}
        return [
            tables.ratio_text(walls[name]["seconds"] / walls[name]["wall"]) if name in walls else "–"
            for name in speed["size"]
        ]

    def hours(table: Result) -> float:
        return float(sum(row["clips"] for row in table["rows"]) * table["seconds"] / 3600)

    pesq = with_peers(_pesq(own), _pesq)
    alarms = with_peers(
        f"≤ {10_000 / unmarked['allowed_hours']:g} by the bound; {unmarked['found']} seen in {unmarked['hours']:.1f} h "
        f"(at most 1 in {1 / unmarked['highest']:,.0f} searches)",
        lambda table: f"no bound; {tables.count_alarms(table)} seen in {hours(table):.1f} h",
    )
    rows = [
        ["payload, bits/s", _payload(own["system"].split()[-1]), *(PAYLOADS[peer] for peer in peers)],
        ["PESQ of the mark", *pesq],
        *(
            [f"exact message, {label}", *with_peers(exact_share(edits), peer_exact(label))]
            for label, edits in COMPARED_EDITS.items()
        ),
        ["false alarms in 10,000 h", *alarms],
        ["embedding, one core, × real time", *real_time("embed")],
        ["detection of a mark, one core, × real time", *real_time("detect, marked")],
        ["detection without a mark, one core, × real time", *real_time("detect, unmarked")],
        ["installed size", *(tables.megabytes(speed, system) for system in speed["size"])],
    ]
    return [
        *markdown(["", f"**{ours} {tables.DEFAULT}**", *peers], rows),
        "",
        f"`ideaw bench files` ({clips} clips of 10 s), `ideaw bench {COMPARED_PROTOCOL}` ({counts} clips of "
        f"{own['seconds']:g} s), `ideaw bench unmarked` ({unmarked['searches']:,} searches), `benchmarks/speed.py` "
        f"(medians); in brackets 95 % intervals; {NOT_MEASURED}: the weights do not come with the package.",
    ]


FRAGMENTS: dict[str, Callable[[], list[str] | None]] = {
    "comparison": comparison_table,
    "segments": tables.segments_table,
    "others": tables.others_table,
    "ablations": tables.ablations_table,
    "levels": tables.levels_table,
    "quality": tables.quality_table,
    "files": tables.files_table,
    "borders": tables.borders_table,
    "lengths": file_tables.lengths_table,
    "unmarked": tables.unmarked_table,
    "locating": tables.locating_table,
    "speed": tables.speed_table,
    "load": catalogue_tables.load_table,
    "catalogue-faults": catalogue_tables.catalogue_faults_table,
    "catalogue-overhead": catalogue_tables.catalogue_overhead_table,
    "catalogue-scaling": catalogue_tables.catalogue_scaling_table,
    "catalogue-listening": catalogue_tables.catalogue_listening_table,
    "catalogue-probes": catalogue_tables.catalogue_probes_table,
    "catalogue-cache": catalogue_tables.catalogue_cache_table,
    "catalogue-losses": catalogue_tables.catalogue_losses_table,
    "catalogue-paper": catalogue_tables.catalogue_paper_table,
    "protocols": tables.protocols_table,
    "resynthesis": partial(attack_tables.cost_table, "resynthesis"),
    "voice": partial(attack_tables.cost_table, "voice"),
    "other-code": attack_tables.other_code_table,
    "security": tables.security_table,
    "containers": file_tables.containers_table,
    "marking": file_tables.marking_table,
    "stream": stream_tables.stream_table,
    "verdicts": verdict_tables.verdicts_table,
    "shortness": stream_tables.shortness_table,
    "fingerprint": provenance_tables.fingerprint_table,
    "other-audio": provenance_tables.other_audio_table,
    "fingerprint-speeds": provenance_tables.fingerprint_speeds_table,
    "replaced": provenance_tables.replaced_table,
    **deep_tables.FRAGMENTS,
    "freshness": make_results.freshness_table,
}


DEMO_TABLES = ("segments", "others", "files", "quality", "unmarked")
"""Fragments that `ideaw demo --site` shows; the package carries them, since it does not carry docs/results."""

DEMO_FILE = tables.ROOT / "src/ideaw/bench/demo/tables.json"


def fragment(name: str) -> str | None:
    """The Markdown text of a fragment; None where nothing was measured for it."""
    lines = FRAGMENTS[name]()
    return None if lines is None else "\n".join([*lines, ""])


def demo_tables() -> str:
    """The JSON text of the tables of the demo: heads, rows and note of each that was measured, without Markdown."""
    content = {}
    for name in DEMO_TABLES:
        lines = FRAGMENTS[name]()
        if lines is not None:
            heads, _, *rows = (line[2:-2].replace("**", "").split(" | ") for line in lines[:-2])
            content[name] = {"heads": heads, "rows": rows, "note": lines[-1].replace("`", "")}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def readme(text: str) -> str:
    """The README with the comparison between its markers; unchanged without markers or results."""
    begin, end = "<!-- comparison -->\n", "<!-- /comparison -->\n"
    table = fragment("comparison") if begin in text else None
    if table is None:
        return text
    head, rest = text.split(begin)
    return head + begin + table + end + rest.split(end)[1]


def card(text: str, name: str) -> str:
    """The JSON text of a model's card with its measured accuracy and quality."""
    measured = results("segments")[name]
    figures: Result = {
        "segments": {row["label"]: round(row["accuracy"], 2) for row in measured["rows"]},
        "other_attacks": {row["label"]: round(row["accuracy"], 2) for row in measured["others"]},
    }
    quality = results("quality").get(name)
    if quality:
        figures["quality"] = {kind: tables.rounded(values) for kind, values in quality["by_kind"].items()}
    return json.dumps(json.loads(text) | figures, indent=2) + "\n"


def _longest_on_one_thread(speed: Result, task: str) -> list[Result]:
    """Times of the longest mono file on one thread: `task` of ours, and what it corresponds to of the peers."""
    times = [time for time in speed["times"] if time["audio"] == "mono" and time["threads"] == 1]
    longest, ours = max(time["seconds"] for time in times), next(iter(speed["size"]))
    wanted = {True: task, False: tables.peer_task(task)}
    return [time for time in times if time["seconds"] == longest and time["task"] == wanted[time["system"] == ours]]


def _pesq(table: Result) -> str:
    pesq = table["quality"]["PESQ"]
    return f"{pesq['value']:.2f} ({pesq['low']:.2f}–{pesq['high']:.2f})"


def _payload(model: str) -> str:
    """Bits of a message in every second."""
    return str(layout(int(model.split("+")[0])).content_bits)


def main() -> None:
    """Write all fragments, the tables of demo and evidence, the README's table and the figures on the cards."""
    folder = tables.ROOT / "docs/results/tables"
    folder.mkdir(exist_ok=True)
    for name in FRAGMENTS:
        text = fragment(name)
        if text is not None:
            (folder / f"{name}.md").write_text(text)
    deep_tables.draw_frontier()
    DEMO_FILE.write_text(demo_tables())
    evidence_tables.FILE.write_text(evidence_tables.figures())
    path = tables.ROOT / "README.md"
    path.write_text(readme(path.read_text()))
    for name in results("segments"):
        path = tables.ROOT / "src/ideaw/weights" / name / "card.json"
        path.write_text(card(path.read_text(), name))


if __name__ == "__main__":
    main()
