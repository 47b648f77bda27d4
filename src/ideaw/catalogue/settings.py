"""What a caller chooses: how files are searched or marked, and which processes do the work."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from ideaw.hypotheses import DEFAULT_SPEEDS
from ideaw.payload.message import Notation

DEFAULT_SHARD_SIZE = 500
"""Files in a part: what a kill may cost is one shard of each worker."""


class ScanOptions(msgspec.Struct, frozen=True, tag="scan"):
    """How files are searched.

    Attributes:
        speeds: which other speeds are tried: "none", "near" or "all".
        until_sure: stop listening to a file once a message is found beyond doubt.
        probes: excerpts of long files that are heard first; 0 for none.
        longest: seconds; longer files are errors.
        cache: keep what the network heard.
        heard: folder of an earlier scan whose cache is searched instead of the audio.
    """

    speeds: str = DEFAULT_SPEEDS
    until_sure: bool = True
    probes: int = 0
    longest: float | None = None
    cache: bool = False
    heard: str | None = None


class MarkOptions(msgspec.Struct, frozen=True, tag="mark"):
    """How files are marked.

    Attributes:
        snr: dB that every second keeps at least, instead of `audibility`.
        audibility: dB of noise to mask (None: the card's).
        longest: seconds; longer files are errors.
        message_kind: how messages are written: "text", "bits" or "hex".
    """

    snr: float | None = None
    audibility: float | None = None
    longest: float | None = None
    message_kind: Notation = "text"


@dataclass(frozen=True)
class Engine:
    """Which processes do the work.

    Attributes:
        name: "local" for processes of this machine, "ray" for actors of Ray.
        address: host:port of a Ray cluster or "auto" (None: one is started here, for as long as the job takes).
        workers: how many processes (None: as many as cores).
    """

    name: Literal["local", "ray"] = "local"
    address: str | None = None
    workers: int | None = None


HERE = Engine()
"""As many processes of this machine as it has cores."""
