"""`ideaw models`: what is packaged, and what its cards say."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

import ideaw
from ideaw.cli import console, options

GIGA = 1e9


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Print the whole card of this model (or model folder).")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the packaged models, or print the card of one."""
    if name is not None:
        card = _entries(ideaw.load(name).card)
        if as_json:
            console.say_json(card)
        else:
            for line in _lines(card):
                console.say(line)
        return
    cards = [ideaw.load(known).card for known in ideaw.model_names()]
    if as_json:
        console.say_json([_entries(card) for card in cards])
        return
    heads = (
        "name",
        "bits",
        "to mask",
        "SNR",
        "network",
        "parameters",
        "GMAC per second",
        "bits right",
    )
    console.say_table(heads, [_row(card) for card in cards])
    console.say("Bits: in a second, message + locating code")
    console.say("To mask: the noise to mask to which hearing sets marks; SNR: of single segments, as in the paper")
    console.say("GMAC per second: embed / locate / message; bits right: under the paper's attacks, worst to best")


def _row(card: ideaw.Card) -> tuple[str, ...]:
    parameters = sum(_mapping(card, "parameters").values())
    costs = _mapping(card, "multiply_adds_per_second")
    shares = [share for share in _mapping(card, "segments").values() if isinstance(share, int | float)]
    return (
        card.name,
        f"{card.message_bits} + {card.code_bits}",
        f"{card.audibility:g} dB",
        f"{card.snr:g} dB",
        card.network,
        f"{parameters / 1e6:.2f} M" if parameters else "–",
        " / ".join(f"{cost / GIGA:.2f}" for cost in costs.values()) or "–",
        f"{min(shares):.2f}–{max(shares):.2f} %" if shares else "–",
    )


def _mapping(card: ideaw.Card, key: str) -> Mapping[str, Any]:
    """A part of the card that need not be there."""
    part = card.facts.get(key)
    return part if isinstance(part, Mapping) else {}


def _entries(card: ideaw.Card) -> dict[str, Any]:
    """The whole card as it lies in its file."""
    engine = {field.name: getattr(card, field.name) for field in dataclasses.fields(card) if field.name != "facts"}
    return engine | dict(card.facts)


def _lines(content: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """A card, one entry a line, what belongs together indented."""
    for key, value in content.items():
        opening = "  " * depth + key.replace("_", " ")
        if isinstance(value, Mapping):
            yield f"{opening}:" if value else f"{opening}: –"
            yield from _lines(value, depth + 1)
        elif isinstance(value, list):
            yield f"{opening}: {', '.join(map(str, value))}"
        else:
            yield f"{opening}: {value:,}" if type(value) is int else f"{opening}: {value}"
