"""What the network heard in a file, small enough to keep: the sign of the strongest eighth of the locating code's
stream, 0 for the rest.

Evidence is concentrated: nine tenths of the stream is near zero. So three values say nearly all of it, and packed they
take 4.7 MB for an hour at most. Positions are kept to a hop, so nothing about any key's matched filter is lost.
"""

import zlib
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND

KEPT_SHARE = 0.12
"""Share of the values of a chunk that are kept: entropy 0.65 bit a value, 4.5 MB an hour."""

TRITS_PER_BYTE = 5
_PLACES = 3 ** np.arange(TRITS_PER_BYTE, dtype=np.uint8)

HEARD_SCHEMA = pa.schema(
    [
        pa.field("index", pa.int64()),
        pa.field("seconds", pa.float64()),
        pa.field("hops", pa.int64()),
        pa.field("rows", pa.int32()),
        pa.field("evidence", pa.large_binary()),
    ],
    metadata={"ideaw.evidence": "1"},
)
"""One row for each file: its length, and (hops, rows) of −1, 0 and 1, packed; null where it could not be heard."""


@dataclass
class EvidenceRecorder:
    """Collects the stream of a file, chunk after chunk."""

    _chunks: list[tuple[int, NDArray[np.int8]]] = field(default_factory=list)

    def keep(self, first_hop: int, stream: NDArray[np.float32]) -> None:
        """Take in the stream `(hops, rows)` of the hops from `first_hop` on."""
        self._chunks.append((first_hop, strongest_signs(stream)))

    def packed(self, seconds: float) -> dict[str, object]:
        """The row of a file of so many seconds, less its index."""
        hops = max((first + len(signs) for first, signs in self._chunks), default=0)
        rows = self._chunks[0][1].shape[1] if self._chunks else 0
        whole = np.zeros((hops, rows), np.int8)
        for first, signs in self._chunks:
            whole[first : first + len(signs)] = signs
        return {"seconds": seconds, "hops": hops, "rows": rows, "evidence": pack(whole)}


def strongest_signs(stream: NDArray[np.float32]) -> NDArray[np.int8]:
    """(hops, rows) → the sign where a value is among the strongest KEPT_SHARE of all, else 0."""
    strength = np.abs(stream)
    least = np.quantile(strength, 1 - KEPT_SHARE) if strength.size else 0.0
    return np.asarray(np.sign(stream) * (strength > least), np.int8)


def pack(signs: NDArray[np.int8]) -> bytes:
    """−1, 0 and 1 of any shape as bytes: five to a byte, and these by Huffman's code."""
    trits = (signs.ravel() + 1).astype(np.uint8)
    padded = np.pad(trits, (0, -len(trits) % TRITS_PER_BYTE)).reshape(-1, TRITS_PER_BYTE)
    coder = zlib.compressobj(6, strategy=zlib.Z_RLE)
    return coder.compress((padded @ _PLACES).astype(np.uint8).tobytes()) + coder.flush()


def unpack(content: bytes, hops: int, rows: int) -> NDArray[np.int8]:
    """What was packed, as (hops, rows)."""
    packed = np.frombuffer(zlib.decompress(content), np.uint8)
    return _TRITS[packed].reshape(-1)[: hops * rows].reshape(hops, rows)


def size_per_hour(content: bytes, hops: int) -> float:
    """Bytes for an hour of audio."""
    return len(content) / max(hops, 1) * FRAMES_PER_SECOND * 3600


_TRITS = (np.arange(256)[:, None] // _PLACES % 3 - 1).astype(np.int8)
"""(256, TRITS_PER_BYTE): the values that a byte stands for."""
