"""`ideaw bench`: the tables of the documentation, made by one command each."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ideaw.cli import console, options, outputs, protocols
from ideaw.cli.extras import extra
from ideaw.cli.paper import paper
from ideaw.engine.gain import describe_level

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

app = typer.Typer(help="Measure a model: the tables of the documentation, one command each.", no_args_is_help=True)
app.command()(paper)

Data = Annotated[Path, typer.Option(metavar="DIR", help="A folder of audio files.", show_default=False)]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers to this file too.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many segments, evenly spaced.")]
FileLimit = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many files, evenly spaced.")]


@app.callback()
def _presets() -> None:
    """One command per preset."""


@app.command()
def segments(
    data: Data,
    model: options.Model = None,
    snr: options.Snr = None,
    json_file: JsonFile = None,
    limit: Limit = None,
    others: Annotated[bool, typer.Option("--others", help="Measure further attacks besides the paper's.")] = False,
) -> None:
    """Share of bits read right in one-second segments, clean and under the paper's attacks: its Table 2."""
    from ideaw.bench.tables.segments import run

    _check(json_file)
    with console.progress("measuring segments") as progress:
        table = run(data, model, snr, limit, progress, others=others)
    _keep(json_file, table)
    kinds = list(table.rows[0].by_kind)
    heads = ("attack", "label", "bits right", *kinds, "paper")
    rows = [
        (row.attack, row.label, *map(_percent, (row.accuracy, *(row.by_kind[kind] for kind in kinds), row.paper)))
        for row in table.rows + table.others
    ]
    console.say_table(heads, rows, numbers=heads[2:])
    console.say(
        f"model {table.model}, {table.segments} segments of a second, {table.snr:g} dB SNR "
        f"(lowest of any segment {table.lowest_snr:.2f} dB)"
    )


@app.command()
def levels(
    data: Data,
    model: options.Model = None,
    snr: options.Snr = None,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the table to this picture.")] = None,
    limit: Limit = None,
) -> None:
    """Share of bits read right in segments at levels from −50 to −10 dBFS."""
    from ideaw.bench.tables.levels import run

    _check(json_file)
    if plot is not None:
        with extra("bench", "drawing"):
            from ideaw.quality.plots import PLOT_EXTENSIONS
            from ideaw.quality.plots import levels as draw
        outputs.check(plot, PLOT_EXTENSIONS)
    with console.progress("measuring levels") as progress:
        table = run(data, model, snr, limit, progress)
    _keep(json_file, table)
    if plot is not None:
        outputs.write(plot, draw(table.levels, table.accuracy, plot.suffix.lower()))
    heads = ("attack", *(f"{level:g} dBFS" for level in table.levels))
    console.say_table(heads, [(n, *map(_percent, row)) for n, row in table.accuracy.items()], numbers=heads[1:])
    console.say(f"model {table.model}, {table.segments} segments of a second, {table.snr:g} dB SNR")


@app.command()
def quality(
    data: Data,
    model: options.Model = None,
    snr: options.Snr = None,
    audibility: options.Audibility = None,
    layers: options.MeasuredLayers = options.FAST_LAYER_NAME,
    json_file: JsonFile = None,
    limit: FileLimit = None,
) -> None:
    """Quality of marked files against their hosts: SNR, PESQ, STOI, ViSQOL, what is heard; and of MP3 instead."""
    with extra("bench", "measuring quality"):
        from ideaw.bench.tables.quality import HIGH_MP3_KBPS, MP3_KBPS, run

    _check(json_file)
    with console.progress("measuring quality") as progress:
        table = run(data, model, snr, limit, progress, audibility, layers)
    _keep(json_file, table)
    sides = dict(table.by_kind)
    for kbps, kinds in ((MP3_KBPS, table.mp3), (HIGH_MP3_KBPS, table.mp3_128)):
        sides |= {f"{kind}, MP3 {kbps}": values for kind, values in kinds.items()}
    names = dict.fromkeys(name for values in sides.values() for name in values)
    rows = [(name, *(f"{v[name]:.4g}" if name in v else "–" for v in sides.values())) for name in names]
    console.say_table(("", *sides), rows, numbers=list(sides))
    level = describe_level(table.snr, table.audibility)
    console.say(f"model {table.model}, {level}")


@app.command()
def listen(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for listen.html.", show_default=False)],
    model: options.Model = None,
    snr: options.Snr = None,
    audibility: options.Audibility = None,
    layers: options.WrittenLayers = None,
    limit: FileLimit = 10,
    seconds: Annotated[float, typer.Option(min=1, max=60, help="Seconds of each clip.")] = 6.0,
) -> None:
    """A blind listening test as one HTML file: who opens it in a browser finds out whether they hear the mark."""
    from ideaw.bench.listen import run

    with console.progress("marking clips") as progress:
        page = run(data, out, model, snr, limit, seconds, progress, audibility, layers)
    left_out = f"; {page.too_short} shorter files left out" if page.too_short else ""
    console.say(f"{page.path}: model {page.model}, {page.clips} clips of {seconds:g} s{left_out}; open it in a browser")


@app.command()
def files(
    data: Data,
    model: options.Model = None,
    snr: options.Snr = None,
    audibility: options.Audibility = None,
    layers: options.MeasuredLayers = options.FAST_LAYER_NAME,
    json_file: JsonFile = None,
    limit: FileLimit = None,
    seconds: Annotated[float, typer.Option(min=1, max=600, help="Seconds of each clip.")] = 10.0,
) -> None:
    """Share of messages read right from whole clips, edited and compressed; how well marked stretches are located."""
    from ideaw.bench.tables.files import run

    _check(json_file)
    with console.progress("measuring files") as progress:
        table = run(data, model, snr, limit, progress, seconds=seconds, audibility=audibility, layers=layers)
    _keep(json_file, table)
    heads = ("edit", "clips", "message right", "95 %", "wrong message", "95 % ")
    rows = [
        (
            row.label,
            str(row.clips),
            _percent(100 * row.right / row.clips),
            _interval(row.right_interval),
            _percent(100 * row.wrong / row.clips),
            _interval(row.wrong_interval),
        )
        for row in table.rows
    ]
    console.say_table(heads, rows, numbers=heads[1:])
    stretches = ("marked stretch", "clips", "found", "intersection over union")
    places = [
        (f"{place.seconds:g} s", str(place.clips), _percent(100 * place.found / place.clips), f"{place.overlap:.3f}")
        for place in table.places
    ]
    console.say_table(stretches, places, numbers=stretches[1:])
    level = describe_level(table.snr, table.audibility)
    console.say(f"model {table.model}, {table.clips} clips of {table.seconds:g} s, 44.1 kHz stereo, {level}")


@app.command()
def lengths(
    data: Data,
    model: options.Model = None,
    snr: options.Snr = None,
    audibility: options.Audibility = None,
    json_file: JsonFile = None,
    plot: options.Plot = None,
    limit: FileLimit = None,
) -> None:
    """How much audio a mark needs: pieces of 0.5 to 30 s, marked alone, as they are and after everyday edits."""
    from ideaw.bench.tables.lengths import PIECE_SECONDS, draw, run

    _check(json_file)
    if plot is not None:
        with extra("bench", "drawing"):
            from ideaw.quality.plots import PLOT_EXTENSIONS
        outputs.check(plot, PLOT_EXTENSIONS)
    with console.progress("measuring lengths") as progress:
        table = run(data, model, snr, limit, progress, audibility)
    _keep(json_file, table)
    if plot is not None:
        outputs.write(plot, draw(table, plot.suffix.lower()))
    heads = ("message right (found)", *(f"{seconds:g} s" for seconds in PIECE_SECONDS))
    rows: dict[str, list[str]] = {}
    for cell in table.cells:
        share = f"{100 * cell.right / cell.pieces:.0f} ({100 * cell.found / cell.pieces:.0f}) %"
        rows.setdefault(cell.edit, []).append(share)
    console.say_table(heads, [(edit, *shares) for edit, shares in rows.items()], numbers=heads[1:])
    wrong, most = sum(cell.wrong for cell in table.cells), max(cell.pieces for cell in table.cells)
    level = describe_level(table.snr, table.audibility)
    console.say(f"model {table.model}, {level}, {most} pieces at most in a cell; {wrong} wrong messages")


@app.command()
def unmarked(
    data: Data,
    model: options.Model = None,
    json_file: JsonFile = None,
    hours: Annotated[float | None, typer.Option(min=0, help="Stop after so many hours of audio.")] = None,
) -> None:
    """False alarms: audio without marks, files and tar packs of them, searched for the marks of many keys."""
    from ideaw.bench.tables.unmarked import run

    _check(json_file)
    with console.progress("searching unmarked audio") as progress:
        table = run(data, model, hours, progress)
    _keep(json_file, table)
    heads = ("p-value below", "searches", "share", "95 % from", "to")
    rows = [
        (f"{level.p_value:g}", str(level.below), *(f"{share:.2g}" for share in (level.share, *level.interval)))
        for level in table.levels
    ]
    console.say_table(heads, rows, numbers=heads)
    smallest = ", ".join(f"{p:.2g}" for p in table.smallest)
    console.say(
        f"model {table.model}: {table.found} found in {table.searches} searches of {table.clips} clips, "
        f"{table.hours:.2f} hours, {table.keys} keys each; smallest p-values {smallest}"
    )
    checked = "nowhere yet" if table.checked_to is None else f"down to {table.checked_to:g}"
    console.say(
        f"measured: less than one false alarm in {1 / table.highest:.0f} searches (95 %), p-values checked {checked}; "
        f"calculated from there: one in {1 / table.allowed:,.0f} files and in {table.allowed_hours:,} hours"
    )


@app.command()
def locating(
    model: options.Model = None,
    json_file: JsonFile = None,
    plot: options.Plot = None,
    repeats: Annotated[int, typer.Option(min=1, help="Repetitions, of which the medians are reported.")] = 3,
    single_stage: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A single-stage model of as many bits, for comparison.",
            show_default="both stages at once",
        ),
    ] = None,
) -> None:
    """Time to find a mark, against the paper's window search on the same network."""
    from ideaw.bench.tables.locating import METHODS, SINGLE_STAGE, WINDOWS, draw, run

    _check(json_file)
    if plot is not None:
        with extra("bench", "drawing"):
            from ideaw.quality.plots import PLOT_EXTENSIONS
        outputs.check(plot, PLOT_EXTENSIONS)
    with console.progress("measuring searches") as progress:
        table = run(model, repeats, progress, single=single_stage)
    _keep(json_file, table)
    if plot is not None:
        outputs.write(plot, draw(table, plot.suffix.lower()))
    others = (WINDOWS, SINGLE_STAGE)
    heads = ("file", "marked from", "windows", *METHODS, *(f"{name} / ours" for name in others), "not right")
    rows = [
        (
            f"{row.seconds:g} s",
            "not at all" if row.begin is None else f"{row.begin:g} s",
            str(row.windows),
            *(f"{row.took[name]:.3f} s" for name in METHODS),
            *(f"{row.times_ours[name]:.3g}" for name in others),
            ", ".join(name for name in METHODS if not row.right[name]) or "–",
        )
        for row in table.rows
    ]
    console.say_table(heads, rows, numbers=heads[2:-1])
    console.say(
        f"model {table.model}, marked to the end, one thread, medians of {table.repeats}, windows {table.step} s apart"
    )


protocols.add(app)


def _check(json_file: Path | None) -> None:
    if json_file is not None:
        outputs.check(json_file, (".json",))


def _keep(json_file: Path | None, table: "DataclassInstance") -> None:
    if json_file is not None:
        outputs.write(json_file, (json.dumps(dataclasses.asdict(table), indent=2) + "\n").encode())


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f} %"


def _interval(shares: tuple[float, float]) -> str:
    return f"{100 * shares[0]:.1f} – {100 * shares[1]:.1f}"
