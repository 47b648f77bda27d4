"""Inaudible, robust messages in audio: `load` a model, `embed` a message, `detect` it again."""

import logging
import os
from importlib.metadata import version

# ONNX Runtime from 1.29 on reports sessions and models to its maker, and keeps an id of the machine for it, unless this
# is set before it is first imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

from ideaw.errors import (
    AlreadyMarkedError,
    AudioError,
    FileError,
    IdeawError,
    LostMarkError,
    MessageError,
    MissingExtraError,
    ModelError,
)
from ideaw.keys import Key
from ideaw.marker import Marker, load
from ideaw.models import Card, model_names
from ideaw.results import Detection, Segment
from ideaw.shortcuts import detect_file, embed_file
from ideaw.streams import EmbedStream

__version__ = version("ideaw")

logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AlreadyMarkedError",
    "AudioError",
    "Card",
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
    "Segment",
    "__version__",
    "detect_file",
    "embed_file",
    "load",
    "model_names",
]
