"""`ideaw detect`: look for a message in files."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

import ideaw
from ideaw.audio.pcm_pipe import PcmForm
from ideaw.audio.read import read_audio
from ideaw.cli import console, options, outputs, sources
from ideaw.cli.extras import extra
from ideaw.errors import IdeawError
from ideaw.keys import PUBLIC, Key
from ideaw.layered_detector import check_proof
from ideaw.payload.message import Content, Message
from ideaw.results import Detection, Segment, detection_as_json, key_name

DEFAULT_LONGEST_SECONDS = 6 * 3600.0
"""A file that is longer is refused, since a small compressed file may hold days of silence."""


class Speed(Enum):
    """Which other speeds are tried."""

    NONE = "none"
    NEAR = "near"
    ALL = "all"


SEARCHED_SPEEDS = {
    None: " (its deep layer was looked for at speeds within 6 %; --speeds all looks from 0.8 to 1.25)",
    Speed.NONE: " at its own speed (--speeds all looks from 0.8 to 1.25)",
    Speed.NEAR: " at speeds within 6 % (--speeds all looks from 0.8 to 1.25)",
    Speed.ALL: "",
}
"""What "no mark" means, by the speeds that were tried; None: those of each layer, the deep one among them."""

KeyFileNames = dict[str, str | None]
"""Fingerprints of the keys that are tried → the file of each; the public key has none."""

EXIT_FOUND, EXIT_NOT_FOUND, EXIT_ERROR = 0, 1, 2
"""Exit codes; the highest of all files counts."""


def detect(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Audio files to search; - for standard input.", show_default=False),
    ],
    model: options.Model = None,
    keys: options.KeyFiles = None,
    speeds: Annotated[
        Speed | None,
        typer.Option(
            help="Other speeds and tempos to try where nothing is found: up to 6 % off, or all from 0.8 to 1.25.",
            show_default="all; near for the deep layer",
        ),
    ] = None,
    layers: options.SearchedLayers = options.ALL_LAYER_NAMES,
    expected: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="A message to test the deep layer for, found in shorter and worse audio; hex:… and bits:… for others.",
            show_default=False,
        ),
    ] = None,
    min_check_bits: options.MinCheckBits = 0,
    longest: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Refuse files that are longer.", show_default="21600, six hours"),
    ] = DEFAULT_LONGEST_SECONDS,
    pcm: options.Pcm = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
    plot: options.Plot = None,
) -> None:
    """Look for a message in audio files.

    The exit code is 0 if every file holds one, 1 if one does not, 2 if one cannot be searched.
    """
    if not longest > 0:
        raise IdeawError(f"--longest {longest:g} cannot be used; give more than 0 seconds")
    if plot is not None:
        _check_plot(plot, paths)
    form = None if pcm is None else PcmForm.of(pcm)
    if form is not None and sources.PIPE not in paths:
        raise IdeawError("--pcm says what comes through a pipe; give - as the input")
    check_proof(min_check_bits)
    marker = ideaw.load(model, threads=threads)
    by_key: dict[Key, str | None] = {key: str(path) for path in keys or () for key in Key.read_all(path)}
    by_key = by_key or {PUBLIC: None}
    names: KeyFileNames = {key.fingerprint: name for key, name in by_key.items()}
    wanted = [_message(text) for text in expected or ()]
    exit_code, answers = EXIT_FOUND, []
    for path in paths:
        try:
            with _named(path, form) as named, console.progress(f"searching {path.name}") as progress:
                detection = marker.detect_file(
                    named,
                    keys=list(by_key),
                    speeds=None if speeds is None else speeds.value,
                    layers=layers,
                    expected=wanted,
                    min_check_bits=min_check_bits,
                    longest=longest,
                    progress=progress,
                )
                if plot is not None:
                    _draw(plot, named, path.name, detection)
        except IdeawError as problem:
            error = str(problem) if str(path) in str(problem) else f"{path}: {problem}"
            console.complain(error)
            answers.append({"file": str(path), "error": error})
            exit_code = EXIT_ERROR
            continue
        exit_code = max(exit_code, EXIT_FOUND if detection.found else EXIT_NOT_FOUND)
        answers.append({"file": str(path)} | detection_as_json(detection, names))
        if not as_json:
            _say(path, detection, names, speeds if "deep" in layers else speeds or Speed.ALL, min_check_bits)
    if as_json:
        console.say_json(answers[0] if len(paths) == 1 else answers)
    raise typer.Exit(exit_code)


@contextmanager
def _named(path: Path, pcm: PcmForm | None) -> Iterator[Path]:
    """Where the audio of a file or of standard input lies."""
    if path == sources.PIPE:
        with sources.piped_in(pcm) as spooled:
            yield spooled
    else:
        yield path


def _say(path: Path, detection: Detection, names: KeyFileNames, speeds: Speed | None, min_check_bits: int) -> None:
    """One line for a file, and one for each stretch where several messages or keys were found."""
    if detection.status == "none":
        unproven = f", or none that {min_check_bits} bits prove" if min_check_bits else ""
        console.say(f"{path}: not found: no mark{unproven}{SEARCHED_SPEEDS[speeds]} (p = {detection.p_value:.1e})")
        return
    # Said of every mark that is not read: whether a forgery nearly passed is nobody's business.
    unproven = f", or is proven by less than {min_check_bits} bits" if min_check_bits and not detection.found else ""
    console.say(f"{path}: {detection}{unproven}{_key_note(detection, names)}")
    if len({(segment.message, segment.key) for segment in detection.segments if segment.message_ok}) > 1:
        for segment in detection.segments:
            console.say(f"  {segment}{_key_note(segment, names)}")


def _message(text: str) -> Content:
    """The content that a message on the command line stands for."""
    for notation in ("hex", "bits"):
        if text.startswith(f"{notation}:"):
            return Message.written(text.removeprefix(f"{notation}:"), notation).content
    return Message(text).content


def _check_plot(plot: Path, paths: list[Path]) -> None:
    with extra("bench", "a plot"):
        from ideaw.quality import plots
    if len(paths) > 1:
        raise IdeawError(f"a plot shows one file, and {len(paths)} are given; give one at a time")
    outputs.check(plot, plots.PLOT_EXTENSIONS)


def _draw(plot: Path, path: Path, name: str, detection: Detection) -> None:
    from ideaw.quality import plots

    recording = read_audio(path)
    outputs.write(plot, plots.detection(recording.samples, recording.rate, detection, name, plot.suffix))


def _key_note(detected: Detection | Segment, names: KeyFileNames) -> str:
    return f", key {key_name(detected, names)}" if detected.key and len(names) > 1 else ""
