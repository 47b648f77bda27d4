"""`ideaw attack`: apply an attack of the catalogue to a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ideaw.audio.read import read_audio
from ideaw.audio.write import write_audio
from ideaw.cli import console, outputs
from ideaw.errors import IdeawError


def attack(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The attack; --list shows them.")] = None,
    source: Annotated[Path | None, typer.Argument(metavar="IN", help="The audio file to attack.")] = None,
    target: Annotated[Path | None, typer.Argument(metavar="OUT", help="The attacked file.")] = None,
    strengths: Annotated[
        list[str] | None,
        typer.Option("-s", "--set", metavar="KEY=VALUE", help="Set a strength; --list shows the defaults."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the attacks that draw at random.")] = 0,
    listed: Annotated[bool, typer.Option("--list", help="List all attacks with their default strengths.")] = False,
) -> None:
    """Attack a file: noise, filters, codecs, cuts and more."""
    from ideaw.attacks import catalogue

    if listed:
        rows = [
            (entry.name, entry.label, entry.summary, _strengths(entry.strengths))
            for entry in catalogue.ATTACKS.values()
        ]
        console.say_table(("name", "label", "what it does", "strengths"), rows)
        return
    if name is None or source is None or target is None:
        raise IdeawError("give the attack, the file and the file to write, or --list")
    if name not in catalogue.ATTACKS:
        raise IdeawError(f'there is no attack "{name}"; there are: {", ".join(catalogue.ATTACKS)}')
    outputs.check_audio(source, target)
    given = dict(_parse_strength(text) for text in strengths or ())
    recording = read_audio(source)
    attacked = catalogue.run(name, recording.samples, recording.rate, seed, **given)
    write_audio(target, attacked, recording.rate, recording.encoding)
    applied = _strengths(catalogue.ATTACKS[name].strengths | given)
    console.say(f"{target}: {source.name} after {name} {applied}".rstrip())


def _parse_strength(given: str) -> tuple[str, float | str]:
    """`key=value`, where the value is a number, true or false, or a word."""
    key, equals, value = given.partition("=")
    if not (key and equals and value):
        raise IdeawError(f'"{given}" is not a strength; write it as key=value, for instance kbps=64')
    if value in ("true", "false"):
        return key, value == "true"
    try:
        return key, float(value)
    except ValueError:
        return key, value


def _strengths(values: Mapping[str, float | str]) -> str:
    return " ".join(f"{name}={_format(value)}" for name, value in values.items())


def _format(value: float | str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else f"{value:g}"
