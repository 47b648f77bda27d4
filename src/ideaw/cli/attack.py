"""`ideaw attack`: do to a file what the world does to files."""

from pathlib import Path
from typing import Annotated

import typer

from ideaw.audio import files
from ideaw.cli import console, outputs
from ideaw.errors import IdeawError


def attack(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The attack; --list shows them.")] = None,
    source: Annotated[Path | None, typer.Argument(metavar="IN", help="The audio file to attack.")] = None,
    target: Annotated[Path | None, typer.Argument(metavar="OUT", help="The attacked file.")] = None,
    strengths: Annotated[
        list[str] | None, typer.Option("-s", "--set", metavar="KEY=VALUE", help="A strength other than the default.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the attacks that draw at random.")] = 0,
    listed: Annotated[bool, typer.Option("--list", help="List all attacks with their default strengths.")] = False,
) -> None:
    """Attack a file: noise, filters, codecs, cuts and more."""
    from ideaw.attacks import catalogue

    if listed:
        rows = [
            (each.name, each.label, each.summary, " ".join(f"{k}={_told(v)}" for k, v in each.strengths.items()))
            for each in catalogue.ATTACKS.values()
        ]
        console.say_table(("name", "label", "what it does", "strengths"), rows)
        return
    if name is None or source is None or target is None:
        raise IdeawError("give the attack, the file and the file to write, or --list")
    if name not in catalogue.ATTACKS:
        raise IdeawError(f'there is no attack "{name}"; there are: {", ".join(catalogue.ATTACKS)}')
    outputs.check_audio(source, target)
    given = dict(_strength(each) for each in strengths or ())
    recording = files.read(source)
    attacked = catalogue.run(name, recording.samples, recording.rate, seed, **given)
    files.write(target, attacked, recording.rate, recording.encoding)
    kept = catalogue.ATTACKS[name].strengths | given
    told = " ".join(f"{key}={_told(value)}" for key, value in kept.items())
    console.say(f"{target}: {source.name} after {name} {told}".rstrip())


def _strength(given: str) -> tuple[str, float | str]:
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


def _told(value: float | str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else f"{value:g}"
