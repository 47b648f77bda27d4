"""The tables on live streams: how late, how fast, how clearly read, and how short a clip may be."""

import json

from intervals import interval_note
from result_tables import ROOT, Result, markdown

STREAM_FILE = ROOT / "docs/results/stream.json"


def stream_table() -> list[str] | None:
    """Latency and time by rate and channels."""
    content = _read()
    if content is None:
        return None
    rows = [
        (
            f"{run['rate'] / 1000:g} kHz, {'mono' if run['channels'] == 1 else 'stereo'}",
            f"{run['longest_wait']:.3f} s",
            f"{run['times_real_time']:.0f} ×",
        )
        for run in content["streams"]
    ]
    evidence = content["evidence"]
    note = (
        f"`benchmarks/stream.py`: blocks of 10 ms, CPU time of one thread, {content['megabytes_per_stream']:.1f} MB a "
        "stream besides the marker. After MP3 at 64 kbit/s a live mark, brought to the energy of the mark in the whole "
        f"array, has {100 * evidence['ratio_of_means']:.0f} % of its evidence (−log10 p, {evidence['clips']} clips, "
        f"means {evidence['stream']:.0f} and {evidence['array']:.0f}; lost {evidence['lost_stream']} and "
        f"{evidence['lost_array']}); as it is, its noise to mask is {evidence['stream_noise_to_mask']:.1f} dB, the "
        f"array's {evidence['array_noise_to_mask']:.1f} dB."
    )
    peer = content["audioseal"].get("times_real_time")
    other = "" if peer is None else f" AudioSeal's streaming generator in the same run, mono: {peer:.1f} ×."
    short, long = content["listening"]
    listening = (
        f"`detect_stream` over {long['seconds'] / 3600:g} h without a mark: {long['answers']} answers, {long['found']} "
        f"of them that there is one, {1000 * long['cpu_seconds'] / long['seconds']:.0f} ms a second; the program's "
        f"most memory {long['peak_megabytes']:.0f} MB, {short['peak_megabytes']:.0f} MB after the first "
        f"{short['seconds'] / 60:g} minutes."
    )
    table = markdown(("stream", "longest wait of a sample", "times real time"), rows)
    return [*table, "", note + other, "", listening]


def shortness_table() -> list[str] | None:
    """Clean excerpts that are read, by length."""
    content = _read()
    if content is None:
        return None
    cells = {(row["model"], row["kind"], row["seconds"]): row["read"] for row in content["shortness"]}
    lengths = sorted({seconds for _, _, seconds in cells})
    kinds = {"array": "arrays", "stream": "live streams"}
    rows = [
        (f"{kinds[kind]}, {model}", *(str(cells[model, kind, seconds]) for seconds in lengths))
        for model in ("46+10", "22+10", "10+10")
        for kind in kinds
    ]
    excerpts = content["shortness"][0]["excerpts"]
    note = (
        f"`benchmarks/stream.py`: clean, active excerpts of held-back audio that were read, of {excerpts}; arrays that "
        "are missing under 1 s were refused with an error. "
        f"{interval_note([excerpts])}"
    )
    return [*markdown(("", *(f"{seconds:g} s" for seconds in lengths)), rows), "", note]


def _read() -> Result | None:
    return json.loads(STREAM_FILE.read_text()) if STREAM_FILE.exists() else None
