"""`ideaw demo`: the packaged music marked, compressed to MP3, cut, and its message found; or all of it as a site."""

import tempfile
import time
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

import ideaw
from ideaw.audio.blocks import to_network_mono
from ideaw.audio.formats import Encoding
from ideaw.audio.read import read_audio
from ideaw.audio.write import write_audio
from ideaw.cli import console, options
from ideaw.cli.extras import extra
from ideaw.errors import IdeawError
from ideaw.payload.message import Content, Message, layout
from ideaw.quality.loudness import masking_of_rest
from ideaw.quality.modulation import modulation_audibility

DEMO_TEXT = "IDEA"
DEMO_MP3_KBPS = 64
"""kbit/s: the paper's strongest compression."""
DEMO_CUT_SECONDS = (1.234, 3.3)
"""Start and length of the piece in seconds, off every border between marked seconds."""


def demo(
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the files in this folder.")] = None,
    site: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write a site to listen to instead: players, pictures, attacked copies, tables."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="With --site: a folder of audio files to show.", show_default="the packaged sounds"
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="With --data: at most so many files, evenly spaced.")] = 6,
    home: Annotated[
        str | None, typer.Option(metavar="URL", help="With --site: the address of the page that it belongs to.")
    ] = None,
    model: options.Model = None,
    threads: options.Threads = None,
) -> None:
    """Mark the packaged sample, compress it, cut it, and find the mark: offline, in seconds. Or write a demo site."""
    if site is None and data is not None:
        raise IdeawError("--data is shown by --site; give the folder of the site too")
    if site is not None:
        _write_site(site, data, limit, home, ideaw.load(model, threads=threads))
        return
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        found = _show(keep, model, threads)
    else:
        with tempfile.TemporaryDirectory(prefix="ideaw-demo-") as folder:
            found = _show(Path(folder), model, threads)
    raise typer.Exit(0 if found else 1)


def _write_site(folder: Path, data: Path | None, limit: int, home: str | None, marker: ideaw.Marker) -> None:
    with extra("bench", "the demo as a site"):
        from ideaw.bench.demo.pages import INDEX_PAGE
        from ideaw.bench.demo.site import write_site

    with console.progress("marking and attacking sounds") as progress:
        made = write_site(folder, _message(marker.message_bits), marker, data, limit, home, progress=progress)
    count = f"{len(made.shown)} sound{'' if len(made.shown) == 1 else 's'}"
    told = f"model {made.model}, {count}, {made.num_bytes / 1e6:.1f} MB"
    console.say(f"{made.path / INDEX_PAGE}: {told}; open it in a browser")


def _show(folder: Path, model: str | None, threads: int | None) -> bool:
    """Do it all in `folder`, a line for each step; whether the message came through."""
    source, marked, coded, piece = (folder / name for name in ("music.ogg", "marked.wav", "marked.mp3", "piece.wav"))
    source.write_bytes(resources.files("ideaw").joinpath("samples", source.name).read_bytes())
    original = read_audio(source)
    rate, seconds = original.rate, len(original.samples) / original.rate
    marker = ideaw.load(model, threads=threads)
    message = _message(marker.message_bits)
    console.say(f"sample    {seconds:g} s of a string orchestra at {rate} Hz in stereo; model {marker.card.name}")

    began = time.perf_counter()
    marker.embed_file(source, marked, message)
    spent = time.perf_counter() - began
    samples = read_audio(marked).samples
    host, heard = (to_network_mono(audio, rate) for audio in (original.samples, samples))
    noise, modulation = masking_of_rest(host, heard).ratio, modulation_audibility(host, heard)
    console.say(
        f"marked    with {Message(message)} in {spent:.1f} s; noise {-noise:.1f} dB below what the music masks, "
        f"slow changes of loudness {-modulation.percentile_99:.1f} dB below what is just heard in 99 % of it"
    )

    began = time.perf_counter()
    write_audio(coded, samples, rate, Encoding("MP3", "MPEG_LAYER_III", DEMO_MP3_KBPS))
    sizes = f"{marked.stat().st_size / 1000:.0f} kB of WAV → {coded.stat().st_size / 1000:.0f} kB"
    console.say(f"MP3       at {DEMO_MP3_KBPS} kbit/s in {time.perf_counter() - began:.1f} s; {sizes}")

    start, length = (round(value * rate) for value in DEMO_CUT_SECONDS)
    write_audio(piece, read_audio(coded).samples[start : start + length], rate)
    console.say(f"cut       to the {DEMO_CUT_SECONDS[1]:g} s from {DEMO_CUT_SECONDS[0]:g} s on; the rest is gone")

    began = time.perf_counter()
    detection = marker.detect_file(piece)
    console.say(f"searched  {DEMO_CUT_SECONDS[1]:g} s in {time.perf_counter() - began:.1f} s: {detection}")
    found = detection.message == message
    console.say(f"The message {Message(message)} was {'found' if found else 'NOT found'} after MP3 and a cut.")
    return found


def _message(message_bits: int) -> Content:
    """As much of the text as a model holds; some bits, where it holds no text."""
    return DEMO_TEXT[: layout(message_bits).content_bytes] or (1, 0, 1)
