"""`ideaw embed`: put a message into files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import ideaw
from ideaw.audio import atomic
from ideaw.audio.blocks import Progress
from ideaw.audio.pcm_pipe import PcmForm
from ideaw.audio.read import open_audio
from ideaw.audio.spool import SPOOL
from ideaw.cli import console, options, outputs, sources
from ideaw.engine.gain import MarkLevel, check_level, describe_level
from ideaw.errors import IdeawError, MessageError
from ideaw.keys import Key
from ideaw.layers import Layer, check_layers
from ideaw.marker import Marker
from ideaw.payload.message import Content, Message
from ideaw.quality.fidelity import lowest_snr
from ideaw.results import message_kind

EXIT_SOME_FAILED = 2
"""Exit code if one of several files could not be marked."""


def embed(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="IN... [OUT]",
            help="The audio file to mark, or - for standard input, and the marked file, whose extension gives the "
            "format, or - for standard output. With --into any number of files and folders.",
            show_default=False,
        ),
    ],
    message: Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="The message.", show_default=False)],
    into: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Mark all inputs under their names in this folder.", show_default=False),
    ] = None,
    bits: Annotated[bool, typer.Option("--bits", help="The message is written in the digits 0 and 1.")] = False,
    hexadecimal: Annotated[bool, typer.Option("--hex", help="The message is bytes in hexadecimal digits.")] = False,
    snr: options.Snr = None,
    audibility: options.Audibility = None,
    layers: options.Layers = options.DEFAULT_LAYER_NAMES,
    model: options.Model = None,
    key: options.KeyFile = None,
    other_keys: Annotated[
        list[Path] | None,
        typer.Option(
            "--other-key",
            metavar="FILE",
            help="Another key over whose marks none is put; several may be given.",
            show_default="your key and the public one",
        ),
    ] = None,
    over: Annotated[bool, typer.Option("--over", help="Mark even what carries a readable mark already.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace outputs that exist already.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Read the mark back before a file is handed over.")
    ] = True,
    pcm: options.Pcm = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Put a message into every second of audio files; format, length, tags, pictures and all else stay."""
    if bits and hexadecimal:
        raise MessageError("a message is either --bits or --hex, not both")
    content = Message.written(message, "bits" if bits else "hex" if hexadecimal else "text").content
    tasks, num_skipped = sources.plan_tasks(paths, into)
    form = None if pcm is None else PcmForm.of(pcm)
    if form is not None and tasks[0].source != sources.PIPE:
        raise IdeawError("--pcm says what comes through a pipe; give - as the input")
    if into is None:
        _check_place(tasks[0], overwrite)
    respected = [other for path in other_keys or () for other in Key.read_all(path)]
    newest, *older = options.read_keys(key)
    marker = ideaw.load(model, key=newest, older_keys=older, threads=threads)
    check_level(snr, audibility, marker.card.audibility)
    level, wanted = (snr, audibility), check_layers(layers)
    work = _Marking(marker, content, message, level, wanted, respected, over, overwrite, verify, form)
    if num_skipped:
        console.complain(f"{num_skipped} files are no audio by their names, and are left out")
    answers, failed = [], False
    with console.progress(_title(tasks)) as progress:
        done = 0.0
        for task in tasks:
            report = _shift(progress, done, task.weight)
            try:
                answer = work.mark(task, report) if into is None else work.mark_into(task, report)
            except IdeawError as problem:
                if into is None:
                    raise
                failed, error = (
                    True,
                    f"{task.source}: {problem}" if str(task.source) not in str(problem) else str(problem),
                )
                console.complain(error)
                answer = {"file": str(task.source), "error": error}
            else:
                if not as_json:
                    (console.note if answer["file"] == "-" else console.say)(work.describe(answer))
            answers.append(answer)
            done += task.weight
    if as_json:
        reply: Any = answers if into is not None else answers[0]
        (console.note_json if tasks[0].target == sources.PIPE else console.say_json)(reply)
    if failed:
        raise typer.Exit(EXIT_SOME_FAILED)


@dataclass(frozen=True)
class _Marking:
    """What is done to every file."""

    marker: Marker
    content: Content
    written_message: str
    level: MarkLevel
    layers: tuple[Layer, ...]
    respected: list[Key]
    over: bool
    overwrite: bool
    verify: bool
    pcm: PcmForm | None

    def mark_into(self, task: sources.Task, progress: Progress | None) -> dict[str, Any]:
        """Mark a file in a folder, which is made with those above it."""
        target = sources.fitting_target(task)
        with atomic.file_errors(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
        return self.mark(sources.Task(task.source, target), progress)

    def mark(self, task: sources.Task, progress: Progress | None) -> dict[str, Any]:
        """Mark a file, or what comes through a pipe; the answer is what machines are told."""
        measured = None
        if task.source == sources.PIPE:
            with sources.piped_in(self.pcm) as source:
                level = self._mark_piped(source, task.target, progress)
        elif task.target == sources.PIPE:
            level = self._embed(task.source, sources.piped_out(), progress)
        else:
            level = self._embed(task.source, task.target, progress)
            measured = _lowest_snr(task.source, task.target)
        written = {"file": str(task.target), "message": self.written_message, "kind": message_kind(self.content)}
        taken = dict(zip(("snr", "audibility"), level, strict=True))
        finite = None if measured is None or np.isinf(measured) else round(measured, 2)
        measures = {"lowest_snr": finite, "layers": list(self.layers)}
        return written | {"model": self.marker.card.name} | taken | measures

    def describe(self, answer: dict[str, Any]) -> str:
        """The same for people."""
        level = describe_level(answer["snr"], answer["audibility"])
        how = [level if "fast" in self.layers else "at a level set by hearing"]
        if "deep" in self.layers:
            how.append("in a deep layer too" if len(self.layers) > 1 else "in the deep layer")
        if answer["lowest_snr"] is not None:
            how.append(f"lowest SNR of a second {answer['lowest_snr']:.1f} dB")
        elif answer["file"] != str(sources.PIPE):
            how.append("before it is coded")
        if not self.verify:
            how.append("not read back")
        return f"{answer['file']}: {'holds' if self.verify else 'was given'} {Message(self.content)}, {', '.join(how)}"

    def _mark_piped(self, source: Path, target: Path, progress: Progress | None) -> MarkLevel:
        """Mark what came through a pipe; bare PCM goes out as bare PCM."""
        if target != sources.PIPE:
            return self._embed(source, target, progress)
        if self.pcm is None:
            return self._embed(source, sources.piped_out(), progress)
        with atomic.scratch_file(SPOOL) as marked:
            with marked.open("wb") as file:
                level = self._embed(source, file, progress)
            self.pcm.copy_samples(marked, sources.piped_out())
        return level

    def _embed(self, source: Path, target: Any, progress: Progress | None) -> MarkLevel:
        snr, audibility = self.level
        return self.marker.embed_file(
            source,
            target,
            self.content,
            snr=snr,
            audibility=audibility,
            layers=self.layers,
            verify=self.verify,
            over=self.over,
            other_keys=self.respected,
            overwrite=self.overwrite,
            progress=progress,
        )


def _check_place(task: sources.Task, overwrite: bool) -> None:
    """Raise `IdeawError` if the output of the only task cannot be what it says."""
    if task.target == sources.PIPE:
        return
    outputs.check_audio(task.source, task.target)
    if not overwrite:
        atomic.check_absent(task.target)


def _title(tasks: list[sources.Task]) -> str:
    return f"marking {tasks[0].source.name}" if len(tasks) == 1 else f"marking {len(tasks)} files"


def _shift(progress: Progress | None, done: float, weight: float) -> Callable[[float], None] | None:
    """Reports the progress of one file as that of all."""
    return None if progress is None else lambda share: progress(done + weight * share)


def _lowest_snr(source: Path, target: Path) -> float | None:
    """The lowest SNR in dB of any second as written; None where a lossy codec's own noise lies over the mark."""
    with open_audio(source) as original, open_audio(target) as marked, np.errstate(divide="ignore"):
        if marked.encoding.bitrate is not None:
            return None
        pairs = zip(original.blocks(marked.rate), marked.blocks(marked.rate), strict=True)
        return min((lowest_snr(*pair, marked.rate) for pair in pairs), default=float("inf"))
