"""`ideaw capacity`: what fits into a file, and what of it survives."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ideaw
from ideaw.audio.read import open_audio
from ideaw.audio.samples import check_source
from ideaw.cli import console, options
from ideaw.errors import AudioError

if TYPE_CHECKING:
    from ideaw.survival import Survivals


def capacity(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The audio file to be marked.", show_default=False)],
    model: options.Model = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tell only what fits, from the length alone.")] = False,
    as_json: options.Json = False,
) -> None:
    """Tell how long a message fits into an audio file, and what length is likely to survive MP3.

    The file itself is marked in a temporary folder, coded and searched, or four stretches of 10 s if it is longer than
    40 s. What is told is an estimate: in trials 28 of 29 messages of the length that was told were read.
    """
    marker = ideaw.load(model)
    with open_audio(path) as source:
        check_source(source.rate, source.channels, None)
        num_samples = source.num_samples or sum(map(len, source.blocks()))
        seconds = num_samples / source.rate
    total, per_second = marker.capacity(seconds), min(marker.capacity(seconds), marker.capacity(1))
    told: Survivals | None = None
    problem = ""
    if total and not quick:
        from ideaw.survival import measure_survival

        try:
            with console.progress(f"Measuring {path.name}") as progress:
                told = measure_survival(marker.network, path, num_samples, progress=progress)
        except AudioError as error:
            problem = str(error)
    if as_json:
        answer = {"file": str(path), "seconds": round(seconds, 2), "bytes": total, "bytes_in_every_second": per_second}
        console.say_json(answer | _survival_json(told, problem))
        return
    if not total:
        console.say(f"{path}: {seconds:.1f} s hold no text with model {marker.card.name}")
        return
    console.say(f"{path}: {seconds:.1f} s hold up to {total} bytes, or {per_second} in every single second")
    if problem:
        console.say(f"but nothing survives: {problem}")
    if told is not None:
        _say_survival(told, total, seconds)


def _survival_json(told: "Survivals | None", problem: str) -> dict[str, Any]:
    """What is known about survival, for a machine; nothing if it was not measured."""
    if problem:
        return {"survives": [], "problem": problem}
    if told is None:
        return {}
    rows = [
        {
            "copy": copy.copy,
            "bytes": copy.bytes,
            "bytes_in_every_second": copy.short_bytes,
            "seconds_for_these": copy.short_seconds,
        }
        for copy in told.copies
    ]
    return {"survives": rows, "measured_seconds": round(told.measured_seconds, 2)}


def _say_survival(told: "Survivals", total: int, seconds: float) -> None:
    """A table of what is read from which copies."""
    if not any(copy.bytes for copy in told.copies):
        console.say(
            "but nothing survives: no mark can be read even untouched; the audio is too quiet or too much like noise"
        )
        return
    short = told.copies[0].short_bytes
    rows = [
        (
            copy.copy,
            f"{copy.bytes} byte{'s' * (copy.bytes != 1)}" + (", all that fits" if copy.bytes == total else ""),
            "–" if copy.short_seconds is None else f"{copy.short_seconds} s",
        )
        for copy in told.copies
    ]
    console.say_table(("copy", "is likely read", f"{short} byte{'s' * (short > 1)} need{'s' * (short == 1)}"), rows)
    if told.measured_seconds < seconds:
        stretches = f"{told.measured_seconds:.0f} s, evenly spread"
        console.say(f"measured on {stretches}, and taken for all")
