"""Sizes and choices of a network. A weight file carries them, so that it can be built again from the file alone."""

from typing import Literal

import msgspec

from ideaw.audio.grid import NUM_BINS


class NetConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One dual-stage network; the defaults are those of the shipped model, `PAPER_NET` is the paper's."""

    message_bits: int = 46
    code_bits: int = 10
    message_slots: int = 98
    """Coded bits of a message in training. Learned carriers keep them, and an FEC code spreads the bits over them (as
    many slots as bits: uncoded); over keyed tiles any number works, so they are chosen when the model is exported."""
    code_slots: int = 98
    """Coded bits of the locating code in training."""
    message_blocks: int = 4
    code_blocks: int = 2
    subnet: Literal["conv", "dense"] = "conv"
    """`conv`: one small net gives scale and shift; `dense`: two dense blocks, as in the paper."""
    message_width: int = 112
    """Hidden channels of the subnets of stage 1 (of a dense block: its growth)."""
    code_width: int = 56
    """Hidden channels of the subnets of stage 2."""
    shared: bool = True
    """Whether the extractor runs the embedder's own blocks backwards, as in the paper, or a copy of its own."""
    balance_blocks: int = 1
    balance_width: int = 56
    domain: Literal["magnitude", "spectrum", "wavelet"] = "magnitude"
    """What the blocks work on: log-magnitudes relative to the spectral envelope or, as in the paper, the complex
    spectrum. `wavelet` is the rival of `nets/rivals/wavelet.py`: of these fields it has bits, slots, blocks (as layers)
    and width of the message."""
    squeeze: int = 24
    """Neighbouring bins folded into channels: 24 gives 20 bands, 1 is full resolution."""
    clamp: float = 1.0
    """Bound of the log-scale of a coupling."""
    skip: float = 0.3
    """Initial gain of the learned shortcut in the first block of each stage; 0 leaves it out."""
    shaping: float = 0.4
    """Power of the host's envelope that residuals follow (magnitudes only): more takes the mark away from where the
    host is quiet."""
    headroom: float | None = None
    """dB above the host's masking curve that residuals may reach as they leave the network (magnitudes only). They are
    then about 8 dB louder than the host, so that at 38 dB they end 46 dB lower. None: no bound."""
    auxiliary: Literal["zero", "random"] = "zero"
    """What the extractor puts in the watermark stream, where the embedder had the watermark."""
    carriers: Literal["tiles", "learned"] = "tiles"
    """How slots become a watermark stream: each has its own tiles of time and frequency, drawn from a key, or length
    regulators are learned, as in the paper: signals, or for magnitudes streams."""

    @property
    def bands(self) -> int:
        """Bands of the squeezed spectrum; the Nyquist bin and what does not fill a band are left alone."""
        return (NUM_BINS - 1) // self.squeeze

    @property
    def bins(self) -> int:
        """Bins that the network works on."""
        return self.bands * self.squeeze

    @property
    def components(self) -> int:
        """Numbers in a stream for every bin: a magnitude, or real and imaginary part."""
        return 1 if self.domain == "magnitude" else 2

    @property
    def channels(self) -> int:
        """Channels of a squeezed stream: every component of every bin of a band."""
        return self.components * self.squeeze

    @property
    def context(self) -> dict[str, int]:
        """Exported function → receptive field in frames to each side: one for each convolution in a row."""
        convolutions = {"conv": 3, "dense": 5}[self.subnet]
        # Marking needs of a stage's last block only the host's half, and the first half of stage 2 does not see the
        # host; backwards, the last net of stage 2 is left to `read`, which needs all of stage 1 but its last.
        message, code = 2 * self.message_blocks - 1, max(2 * self.code_blocks - 1, 0)
        nets = {
            "mark": message + max(code - 1, 0),
            "locate": self.balance_blocks + code,
            "read": message + min(self.code_blocks, 1),
        }
        return {function: convolutions * number for function, number in nets.items()}


PAPER_NET = NetConfig(
    message_slots=46,
    code_slots=10,
    message_blocks=16,
    code_blocks=8,
    subnet="dense",
    message_width=32,
    code_width=32,
    balance_blocks=2,
    balance_width=32,
    domain="spectrum",
    squeeze=1,
    clamp=1.0,
    skip=0.0,
    auxiliary="random",
    carriers="learned",
)
