"""`ideaw issue`: give a file an id: a mark, a signed manifest and a record that lead to each other."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import ideaw
from ideaw.cli import console, options, outputs
from ideaw.cli.extras import extra
from ideaw.errors import IdeawError


def issue(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The audio file.", show_default=False)],
    target: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="The file to write; its extension gives the format.", show_default=False),
    ],
    registry: options.RegistryUrl,
    sign: options.Sign = None,
    generated: Annotated[bool, typer.Option("--generated", help="Say that a trained model made the audio.")] = False,
    recorded: Annotated[bool, typer.Option("--recorded", help="Say that the audio was recorded.")] = False,
    label_cn: Annotated[
        bool, typer.Option("--label-cn", help="Write China's label of generated audio (GB 45438-2025) too.")
    ] = False,
    producer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Who generates, in that label.", show_default="who signs"),
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="JSON", help="What else to keep in the record.", show_default=False)
    ] = None,
    snr: options.Snr = None,
    audibility: options.Audibility = None,
    layers: options.WrittenLayers = None,
    model: options.Model = None,
    key: options.KeyFile = None,
    over: Annotated[bool, typer.Option("--over", help="Mark even what carries a readable mark already.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace outputs that exist already.")] = False,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Give a file an id, which its mark, its signed manifest and a record in the registry carry: all three or none."""
    with extra("provenance", "`ideaw issue`"):
        from ideaw.provenance.credentials import Signer
        from ideaw.provenance.issue import issue_file
        from ideaw.provenance.records import written_id
        from ideaw.provenance.registry import Registry
    if generated and recorded:
        raise IdeawError("audio is either --generated or --recorded, not both")
    signer = None if sign is None else Signer(*sign)
    if label_cn and producer is None:
        if signer is None:
            raise IdeawError("the label names who generates; give --producer NAME, or --sign")
        producer = signer.issuer
    outputs.check_audio(source, target)
    newest, *older = options.read_keys(key)
    marker = ideaw.load(model, key=newest, older_keys=older, threads=threads)
    with Registry(registry) as opened, console.progress(f"issuing {source.name}") as progress:
        credential = issue_file(
            source,
            target,
            registry=opened,
            signer=signer,
            marker=marker,
            origin="generated" if generated else "recorded" if recorded else None,
            label_producer=producer if label_cn else None,
            data=_parse(data),
            snr=snr,
            audibility=audibility,
            layers=layers,
            over=over,
            overwrite=overwrite,
            progress=progress,
        )
    record = credential.record
    if as_json:
        sidecar = None if credential.sidecar is None else str(credential.sidecar)
        answer = {"file": str(target), "id": written_id(record.id), "created": record.created.isoformat()}
        rest = {"sha256": record.sha256, "signed_by": signer and signer.issuer, "manifest_file": sidecar}
        console.say_json(answer | rest)
        return
    signed = "" if signer is None else f", signed by {signer.issuer}"
    beside = "" if credential.sidecar is None else f"; its manifest is {credential.sidecar}"
    console.say(f"{target}: has the id {written_id(record.id)}{signed}{beside}")


def _parse(text: str | None) -> dict[str, Any] | None:
    """The object that was given as JSON."""
    if text is None:
        return None
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise IdeawError('--data is no JSON object; give one such as {"title": "Pilot"}')
    return content
