"""The jobs that a registry is needed for: what belongs to a mark, where audio comes from, and giving files ids."""

from functools import cache
from pathlib import Path
from typing import Any, assert_never

from ideaw.audio.read import open_audio
from ideaw.audio.spool import extension_for
from ideaw.engine.network import Network
from ideaw.keys import PUBLIC, Key
from ideaw.marker import Marker
from ideaw.provenance import resolution
from ideaw.provenance.credentials import Signer, read_roots
from ideaw.provenance.issue import issue_file
from ideaw.provenance.manifest_store import active_label
from ideaw.provenance.records import written_id
from ideaw.provenance.registry import Registry
from ideaw.provenance.verdict import verdict_as_json
from ideaw.provenance.verify import verify_file
from ideaw.service.jobs import Issue, MatchContent, MatchFingerprint, Verify, check_length


def do(job: MatchContent | MatchFingerprint | Verify | Issue, network: Network) -> dict[str, Any]:
    """Do a job with the network of the worker."""
    match job:
        case MatchContent():
            return _match_content(job, network)
        case MatchFingerprint():
            match = resolution.match_fingerprint(_open(job.registry), job.binding)
            return {"matches": [] if match is None else [_match_as_json(match)]}
        case Verify():
            return _verify(job, network)
        case Issue():
            return _issue(job, network)
        case _:
            assert_never(job)


def _match_content(job: MatchContent, network: Network) -> dict[str, Any]:
    with open_audio(job.source) as opened:
        check_length(opened, job.longest)
    keys = [Key.of(key.digits) for key in job.keys] or [PUBLIC]
    found = resolution.match_content(_open(job.registry), Marker(network), job.source, keys, job.hints, job.longest)
    return {"matches": [_match_as_json(match) for match in found]}


def _verify(job: Verify, network: Network) -> dict[str, Any]:
    with open_audio(job.source) as opened:
        check_length(opened, job.longest)
    named = {Key.of(key.digits): key.name for key in job.keys} or {PUBLIC: None}
    verdict = verify_file(
        job.source,
        registry=_open(job.registry),
        marker=Marker(network),
        keys=list(named),
        roots=None if job.trusted is None else read_roots(job.trusted),
        speeds=job.speeds,
        longest=job.longest,
    )
    return verdict_as_json(verdict, {key.fingerprint: name for key, name in named.items()})


def _issue(job: Issue, network: Network) -> dict[str, Any]:
    source = Path(job.source)
    with open_audio(source) as opened:
        check_length(opened, job.longest)
        target = source.with_name(f"issued{extension_for(opened.encoding, source.suffix)}")
    signer = None if job.sign is None else Signer(*job.sign)
    credential = issue_file(
        source,
        target,
        registry=_open(job.registry),
        signer=signer,
        marker=Marker(network, PUBLIC if job.key is None else Key.of(job.key.digits)),
        origin=job.origin,
        label_producer=job.producer,
        data=job.data,
        longest=job.longest,
    )
    store = credential.manifest
    label = None if store is None else active_label(store)
    return {"file": target.name, "id": written_id(credential.record.id), "manifest": label}


@cache
def _open(url: str) -> Registry:
    """A registry, opened once."""
    return Registry(url, create=False)


def _match_as_json(match: resolution.Match) -> dict[str, Any]:
    return {"id": match.manifest_id, "score": match.score}
