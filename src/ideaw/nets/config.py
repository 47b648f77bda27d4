"""What a network is made of. A weight file carries this, so it can be built again from the file alone."""

from dataclasses import dataclass
from typing import Literal

from ideaw.audio.grid import BINS


@dataclass(frozen=True)
class NetConfig:
    """Sizes and choices of one dual-stage network; the defaults are ours, `PAPER` is the paper's."""

    message_bits: int = 46
    code_bits: int = 10
    message_blocks: int = 4
    code_blocks: int = 2
    subnet: Literal["conv", "dense"] = "conv"
    """`conv`: one small net gives scale and shift; `dense`: two dense blocks, as in the paper."""
    message_width: int = 88
    """Hidden channels of the subnets of stage 1 (of a dense block: its growth)."""
    code_width: int = 40
    """The same of stage 2."""
    balance_blocks: int = 1
    balance_width: int = 40
    squeeze: int = 24
    """Neighbouring bins folded into channels: 24 gives 20 bands of 48 channels, 1 is full resolution."""
    clamp: float = 1.0
    """The scales are exp of something within ± this."""
    skip: float = 0.3
    """Initial gain of the learned shortcut in the first block of each stage; 0 leaves it out."""
    shaped: bool = True
    """Work on a whitened spectrum, and let the nets that look at audio see it compressed, with magnitudes."""
    auxiliary: Literal["zero", "random"] = "zero"
    """What the extractor puts in the watermark stream, where the embedder had the watermark."""
    carriers: Literal["tiles", "noise"] = "tiles"
    """How the length regulators start: each bit on its own tiles of time and frequency, or spread over everything."""

    @property
    def bands(self) -> int:
        """Bands of the squeezed spectrum; the Nyquist bin and what does not fill a band are left alone."""
        return (BINS - 1) // self.squeeze

    @property
    def channels(self) -> int:
        """Channels of the squeezed spectrum: real and imaginary part of every bin of a band."""
        return 2 * self.squeeze

    @property
    def context(self) -> int:
        """Frames to each side of a moment that embedding or extraction can see: one for each convolution in a row."""
        convolutions = {"conv": 3, "dense": 5}[self.subnet]
        return convolutions * (2 * (self.message_blocks + self.code_blocks) + self.balance_blocks)


PAPER = NetConfig(
    message_blocks=16,
    code_blocks=8,
    subnet="dense",
    message_width=32,
    code_width=32,
    balance_blocks=2,
    balance_width=32,
    squeeze=1,
    clamp=1.0,
    skip=0.0,
    shaped=False,
    auxiliary="random",
    carriers="noise",
)
