"""`ideaw verify`: say where files come from, and why."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ideaw
from ideaw.cli import console, options
from ideaw.cli.detect import DEFAULT_LONGEST_SECONDS, EXIT_ERROR, EXIT_FOUND, EXIT_NOT_FOUND, Speed
from ideaw.cli.extras import extra
from ideaw.errors import IdeawError
from ideaw.keys import PUBLIC, Key

if TYPE_CHECKING:
    from ideaw.provenance.remote import ServiceResolver


def verify(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Audio files.", show_default=False)],
    registry: options.KnownRegistryUrl = None,
    service: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="A service that knows the records instead; no audio is sent.", show_default="none"
        ),
    ] = None,
    keys: options.KeyFiles = None,
    trust: options.Trust = None,
    speeds: Annotated[
        Speed | None,
        typer.Option(
            help="Other speeds and tempos to try where no mark is found, as for `detect`.",
            show_default="all; near for the deep layer",
        ),
    ] = None,
    layers: options.SearchedLayers = options.ALL_LAYER_NAMES,
    expected: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="An id to test the deep layer for, found in shorter and worse audio, besides those of the manifest.",
            show_default="none",
        ),
    ] = None,
    longest: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Refuse files that are longer.", show_default="21600, six hours"),
    ] = DEFAULT_LONGEST_SECONDS,
    model: options.Model = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Say where audio comes from: by its mark, the record that this leads to, and its manifest.

    The exit code is 0 if every file is authentic, 1 if one is not or nothing is known of it, 2 if one cannot be
    examined.
    """
    with extra("provenance", "`ideaw verify`"):
        from ideaw.provenance.credentials import read_roots
        from ideaw.provenance.records import read_id
        from ideaw.provenance.registry import Registry
        from ideaw.provenance.verdict import verdict_as_json
        from ideaw.provenance.verify import verify_file
    if not longest > 0:
        raise IdeawError(f"--longest {longest:g} cannot be used; give more than 0 seconds")
    roots = None if trust is None else read_roots(trust)
    by_key: dict[Key, str | None] = {key: str(path) for path in keys or () for key in Key.read_all(path)}
    by_key = by_key or {PUBLIC: None}
    names = {key.fingerprint: name for key, name in by_key.items()}
    if registry is not None and service is not None:
        raise IdeawError("records are either in a --registry or at a --service; give one of them")
    opened = None if registry is None else Registry(registry, create=False)
    resolver = opened if service is None else _at_service(service)
    wanted = [read_id(text) for text in expected or ()]
    marker = ideaw.load(model, threads=threads)
    exit_code, answers = EXIT_FOUND, []
    for path in paths:
        try:
            with console.progress(f"verifying {path.name}") as progress:
                verdict = verify_file(
                    path,
                    registry=resolver,
                    marker=marker,
                    keys=list(by_key),
                    roots=roots,
                    speeds=None if speeds is None else speeds.value,
                    layers=layers,
                    expected=wanted,
                    longest=longest,
                    progress=progress,
                )
        except IdeawError as problem:
            error = str(problem) if str(path) in str(problem) else f"{path}: {problem}"
            console.complain(error)
            answers.append({"file": str(path), "error": error})
            exit_code = EXIT_ERROR
            continue
        exit_code = max(exit_code, EXIT_FOUND if verdict.status == "authentic" else EXIT_NOT_FOUND)
        answers.append({"file": str(path)} | verdict_as_json(verdict, names))
        if not as_json:
            console.say(f"{path}: {verdict}")
    if opened is not None:
        opened.close()
    if as_json:
        console.say_json(answers[0] if len(paths) == 1 else answers)
    raise typer.Exit(exit_code)


def _at_service(url: str) -> "ServiceResolver":
    with extra("serve", "a service"):
        from ideaw.provenance.remote import ServiceResolver
    return ServiceResolver(url)
