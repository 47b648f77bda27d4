"""The systems that can be asked: what they are called, and what there is to be imported and installed of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """One system. `package` is what its environment must have, `program` what must be on the PATH instead."""

    title: str
    package: str | None = None
    distributions: tuple[str, ...] = ()
    """What its size is counted of, with all that these require; its version is that of the first."""
    program: str | None = None
    weights: str | None = None
    """What its weights are, where they come neither with it nor with its package."""


IDEAW = "ideaw"

SYSTEMS = {
    IDEAW: System("ideaw", "ideaw", ("ideaw",)),
    "audioseal": System(
        "AudioSeal", "audioseal", ("audioseal",), weights="a folder with generator_base.pth and detector_base.pth"
    ),
    "wavmark": System("WavMark", "wavmark", ("wavmark",), weights="its .pkl file"),
    "perth": System("Perth", "perth", ("resemble-perth", "torch", "torchaudio", "librosa", "pyrubberband")),
    "silentcipher": System(
        "SilentCipher", "silentcipher", ("silentcipher",), weights="a folder with its .ckpt files and hparams.yaml"
    ),
    "audiowmark": System("audiowmark", program="audiowmark"),
}

PEERS = tuple(name for name in SYSTEMS if name != IDEAW)
