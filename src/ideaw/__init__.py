"""Inaudible, robust messages in audio: `load` a model, `embed` a message, `detect` it again."""

from ideaw.engine.network import Card
from ideaw.errors import AudioError, FileError, IdeawError, MessageError, MissingExtraError, ModelError
from ideaw.keys import Key
from ideaw.marker import Marker, detect_file, embed_file, load, model_names
from ideaw.results import Detection, Segment

__all__ = [
    "AudioError",
    "Card",
    "Detection",
    "FileError",
    "IdeawError",
    "Key",
    "Marker",
    "MessageError",
    "MissingExtraError",
    "ModelError",
    "Segment",
    "detect_file",
    "embed_file",
    "load",
    "model_names",
]
