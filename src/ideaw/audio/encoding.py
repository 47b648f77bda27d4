"""How files hold samples: what reading one finds out, and writing another keeps."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Encoding:
    """How a file holds its samples.

    `container` and `subtype` are libsndfile's names (`WAV`, `PCM_24`) or PyAV's codec (`M4A`, `AAC`);
    `bitrate` is in kbit/s, None where the coding is lossless; `head` is an MP3's own ID3v2 tag, which
    is carried over as it is, pictures included.
    """

    container: str
    subtype: str
    bitrate: int | None = None
    tags: dict[str, str] = field(default_factory=dict)
    head: bytes = field(default=b"", repr=False)


def on_grid(samples: NDArray[np.floating], bits: int) -> NDArray[np.int64]:
    """Samples as the nearest steps of `bits` bits, those beyond full scale as the last one."""
    scale = 2.0 ** (bits - 1)
    return np.clip(np.rint(samples * scale), -scale, scale - 1).astype(np.int64)
