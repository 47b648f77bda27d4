"""The systems that can be asked: what they are called, and what there is to be imported and installed of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """One system. `package` is what its environment must have, `program` what must be on the PATH instead."""

    title: str
    package: str | None = None
    distributions: tuple[str, ...] = ()
    """What its size is counted of, with all that these require."""
    program: str | None = None


OURS = "ideaw"

SYSTEMS = {
    OURS: System("ideaw", "ideaw", ("ideaw",)),
    "audioseal": System("AudioSeal", "audioseal", ("audioseal",)),
    "wavmark": System("WavMark", "wavmark", ("wavmark",)),
    "perth": System("Perth", "perth", ("resemble-perth", "torch", "torchaudio", "librosa", "pyrubberband")),
    "silentcipher": System("SilentCipher", "silentcipher", ("silentcipher",)),
    "audiowmark": System("audiowmark", program="audiowmark"),
}

PEERS = tuple(name for name in SYSTEMS if name != OURS)
