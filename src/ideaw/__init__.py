"""Inaudible, robust messages in audio: `load` a model, `embed` a message, `detect` it again."""

import logging
import os
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

# ONNX Runtime from 1.29 on reports sessions and models to its maker, and keeps an id of the machine for it, unless this
# is set before it is first imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

from ideaw.errors import (
    AlreadyMarkedError,
    AudioError,
    CredentialError,
    FileError,
    IdeawError,
    LostMarkError,
    MessageError,
    MissingExtraError,
    ModelError,
    RegistryError,
)
from ideaw.keys import Key
from ideaw.marker import Marker, load
from ideaw.models import Card, model_names
from ideaw.results import Detection, Segment
from ideaw.shortcuts import detect_file, embed_file
from ideaw.streams import EmbedStream

if TYPE_CHECKING:
    from ideaw.provenance.credentials import Signer as Signer
    from ideaw.provenance.issue import Credential as Credential
    from ideaw.provenance.issue import issue_array as issue_array
    from ideaw.provenance.issue import issue_file as issue_file
    from ideaw.provenance.issue import issue_stream as issue_stream
    from ideaw.provenance.records import Record as Record
    from ideaw.provenance.registry import Registry as Registry
    from ideaw.provenance.verdict import Verdict as Verdict
    from ideaw.provenance.verify import verify_file as verify_file

__version__ = version("ideaw")

logging.getLogger(__name__).addHandler(logging.NullHandler())

_PROVENANCE = {
    "Credential": "issue",
    "Record": "records",
    "Registry": "registry",
    "Signer": "credentials",
    "Verdict": "verdict",
    "issue_array": "issue",
    "issue_file": "issue",
    "issue_stream": "issue",
    "verify_file": "verify",
}
"""What needs the extra of that name, and the module that is imported once it is asked for. It is not in `__all__`, so
that `from ideaw import *` goes without."""

__all__ = [
    "AlreadyMarkedError",
    "AudioError",
    "Card",
    "CredentialError",
    "Detection",
    "EmbedStream",
    "FileError",
    "IdeawError",
    "Key",
    "LostMarkError",
    "Marker",
    "MessageError",
    "MissingExtraError",
    "ModelError",
    "RegistryError",
    "Segment",
    "__version__",
    "detect_file",
    "embed_file",
    "load",
    "model_names",
]


def __dir__() -> list[str]:
    return [*__all__, *_PROVENANCE]


def __getattr__(name: str) -> Any:
    """Import what needs an extra when it is first asked for."""
    if name not in _PROVENANCE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"ideaw.provenance.{_PROVENANCE[name]}")
    except ModuleNotFoundError as problem:
        raise MissingExtraError(
            f'ideaw.{name} needs {problem.name}; install it with: pip install "ideaw[provenance]"'
        ) from problem
    return getattr(module, name)
