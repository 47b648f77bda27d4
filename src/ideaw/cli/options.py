"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from ideaw.keys import PUBLIC, Key
from ideaw.layers import ALL_LAYERS, FAST_ALONE
from ideaw.models import DEFAULT_MODEL

Model = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A packaged model, or a model folder.", show_default=DEFAULT_MODEL),
]
Snr = Annotated[
    float | None,
    typer.Option(
        metavar="DB",
        help="A fixed SNR in dB that every second, counted from the start, keeps at least.",
        show_default="a level by hearing",
    ),
]
Audibility = Annotated[
    float | None,
    typer.Option(
        metavar="DB",
        help="Noise to mask in dB to which a model of hearing sets every second; lower is quieter.",
        show_default="what the model's card says",
    ),
]
KEYS_PROMISE = (
    "Keys separate owners and obscure what a message says. They do not hide that a mark is there, do not stop its "
    "removal by someone who has the software, and a found mark alone does not prove who made it."
)
"""What help texts say about keys."""

KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key", metavar="FILE", help=f"A key that `keygen` wrote. {KEYS_PROMISE}", show_default="the public key"
    ),
]
KeyFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help=f"A key that `keygen` wrote; several may be given. {KEYS_PROMISE}",
        show_default="the public key",
    ),
]
Threads = Annotated[
    int | None, typer.Option(metavar="N", help="Threads of the network, 1 or more.", show_default="all cores")
]
ALL_LAYER_NAMES, FAST_LAYER_NAME = ",".join(ALL_LAYERS), FAST_ALONE[0]
LAYERS_HELP = "fast, the network's; deep, which survives codecs that draw audio anew; or fast,deep."
"""What help texts say about layers."""

WrittenLayers = Annotated[
    str | None,
    typer.Option(
        "--layers",
        metavar="NAMES",
        help=f"Layers of the mark: {LAYERS_HELP} An SNR is kept by fast alone.",
        show_default="both; fast with --snr, in less than 3 s, and in A-law and µ-law files",
    ),
]
SearchedLayers = Annotated[
    str,
    typer.Option(
        "--layers", metavar="NAMES", help=f"Layers to look for: {LAYERS_HELP} The second where the first is not found."
    ),
]
MeasuredLayers = Annotated[str, typer.Option("--layers", metavar="NAMES", help=f"Layers of the mark: {LAYERS_HELP}")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Pcm = Annotated[
    str | None,
    typer.Option(
        metavar="RATExCHANNELS[:TYPE]",
        help="What bare little-endian PCM through a pipe is, such as 48000x2; TYPE is s16, s24, s32 or f32.",
        show_default="a file, such as WAV",
    ),
]
_REGISTRY_METAVAR = "URL"
RegistryUrl = Annotated[
    str,
    typer.Option(
        "--registry",
        metavar=_REGISTRY_METAVAR,
        help="Where ids are allotted and records kept: sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/DATABASE.",
        show_default=False,
    ),
]
KnownRegistryUrl = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar=_REGISTRY_METAVAR,
        help="Where the records are: sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/DATABASE.",
        show_default="no id is known",
    ),
]
RecordsUrl = Annotated[
    str,
    typer.Option(
        "--registry",
        metavar=_REGISTRY_METAVAR,
        help="Where the records are: sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/DATABASE.",
        show_default=False,
    ),
]
AllottingUrl = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar=_REGISTRY_METAVAR,
        help="Where an id is allotted to each answer, and a record kept: sqlite:///FILE, or postgresql://….",
        show_default="no ids",
    ),
]
Sign = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        metavar="CERT KEY",
        help="PEM files of the certificate to sign with and of its private key; for tests: ideaw testcert.",
        show_default="no manifest",
    ),
]
Trust = Annotated[
    Path | None,
    typer.Option(metavar="PEM", help="Authorities whose signatures are trusted.", show_default="none"),
]
MinCheckBits = Annotated[
    int,
    typer.Option(
        "--check-bits",
        metavar="N",
        help="Tell no message with fewer bits of proof that it was made with its key, 0 to 48; takes longer.",
    ),
]
Plot = Annotated[Path | None, typer.Option(metavar="PNG", help="Draw a picture too: .png, .svg or .pdf.")]


def read_keys(path: Path | None) -> list[Key]:
    """The keys in a file, the newest first; the public one without a file."""
    return [PUBLIC] if path is None else Key.read_all(path)
