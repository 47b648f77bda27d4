"""`ideaw embed`: put a message into a file."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import ideaw
from ideaw.audio.read import open_audio
from ideaw.cli import console, options, outputs
from ideaw.engine.gain import check_level, describe_level
from ideaw.errors import MessageError
from ideaw.layers import check_layers
from ideaw.payload.message import Message
from ideaw.quality.fidelity import lowest_snr
from ideaw.results import message_kind


def embed(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The audio file to mark.", show_default=False)],
    target: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="The marked file; its extension gives the format.", show_default=False),
    ],
    message: Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="The message.", show_default=False)],
    bits: Annotated[bool, typer.Option("--bits", help="The message is written in the digits 0 and 1.")] = False,
    hexadecimal: Annotated[bool, typer.Option("--hex", help="The message is bytes in hexadecimal digits.")] = False,
    snr: options.Snr = None,
    audibility: options.Audibility = None,
    layers: options.Layers = options.DEFAULT_LAYER_NAMES,
    model: options.Model = None,
    key: options.KeyFile = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Put a message into every second of an audio file; format, length, channels and usual tags stay."""
    if bits and hexadecimal:
        raise MessageError("a message is either --bits or --hex, not both")
    content = Message.written(message, "bits" if bits else "hex" if hexadecimal else "text").content
    outputs.check_audio(source, target)
    marker = ideaw.load(model, key=options.read_key(key), threads=threads)
    with console.progress(f"marking {source.name}") as progress:
        marker.embed_file(source, target, content, snr=snr, audibility=audibility, layers=layers, progress=progress)
    level = check_level(snr, audibility, marker.card.audibility)
    names = check_layers(layers)
    measured = _lowest_snr(source, target)
    if as_json:
        written = {"file": str(target), "message": message, "kind": message_kind(content), "model": marker.card.name}
        finite = None if measured is None or np.isinf(measured) else round(measured, 2)
        asked = dict(zip(("snr", "audibility"), level, strict=True))
        console.say_json(written | asked | {"lowest_snr": finite, "layers": list(names)})
    else:
        how = describe_level(*level) if "fast" in names else "at a level set by hearing"
        deep = ", in a deep layer too" if len(names) > 1 else ", in the deep layer" if "deep" in names else ""
        lowest = "before it is coded" if measured is None else f"lowest SNR of a second {measured:.1f} dB"
        console.say(f"{target}: holds {Message(content)}, {how}{deep}, {lowest}")


def _lowest_snr(source: Path, target: Path) -> float | None:
    """The lowest SNR in dB of any second as written; None where a lossy codec's own noise lies over the mark."""
    with open_audio(source) as original, open_audio(target) as marked, np.errstate(divide="ignore"):
        if marked.encoding.bitrate is not None:
            return None
        pairs = zip(original.blocks(marked.rate), marked.blocks(marked.rate), strict=True)
        return min((lowest_snr(*pair, marked.rate) for pair in pairs), default=float("inf"))
