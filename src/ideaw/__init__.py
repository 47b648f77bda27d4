"""Inaudible, robust messages in audio: `load` a model, `embed` a message, `detect` it again."""

import logging
from importlib.metadata import version

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
