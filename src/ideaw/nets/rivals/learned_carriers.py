"""The paper's length regulators: carriers that are trained along, a spreading and a reading map for every slot.

The shipped network has keyed tiles instead (`nets/carriers.py`): nothing to learn, and every user has his own.
"""

import torch
from torch import Tensor, nn

from ideaw.audio.grid import FRAMES_PER_SECOND, SEGMENT_SAMPLES
from ideaw.nets.carriers import Carriers
from ideaw.nets.config import NetConfig
from ideaw.nets.model import Ideaw
from ideaw.nets.stft import stft

INIT_BAND_BINS = 2
"""Neighbouring bins that learned streams give to one slot at the start."""


class LearnedSignals(nn.Module):
    """Length regulators of a network on complex spectra: signals of a second (LR1 with LR3, LR2 with LR4).

    Args:
        config: Gives the number of bins.
        slots: Number of slots.
        generator: Source of the initial noise.
    """

    def __init__(self, config: NetConfig, slots: int, generator: torch.Generator) -> None:
        super().__init__()
        self.bins = config.bins
        start = torch.randn(slots, SEGMENT_SAMPLES, generator=generator) / slots**0.5
        self.write = nn.Parameter(start)
        self.read = nn.Parameter(0.02 * start)

    def forward(self) -> Carriers:
        """The signals as carriers of streams, (slots, FRAMES_PER_SECOND, 2 · bins)."""
        return Carriers(self._spectrum(self.write), self._spectrum(self.read))

    def _spectrum(self, signals: Tensor) -> Tensor:
        spectrum = stft(signals, ring=True)[..., : self.bins]
        return torch.cat([spectrum.real, spectrum.imag], -1)


class LearnedStreams(nn.Module):
    """Length regulators of a network on magnitudes, which has no signals to learn: a number for every frame and bin.

    They start as bands that belong to a slot, with one sign for half of the ring and the other for the second half: a
    slow pattern is read far off its place, and one without a mean does not take a steady tone of the host for a bit.

    Args:
        config: Gives the number of bins.
        slots: Number of slots.
        generator: Source of the initial drawing.
    """

    def __init__(self, config: NetConfig, slots: int, generator: torch.Generator) -> None:
        super().__init__()
        bands = config.bins // INIT_BAND_BINS
        rounds = -(-bands // max(1, slots))
        slot_of_band = torch.rand(rounds, slots, generator=generator).argsort(1).flatten()[:bands]
        sign_of_band = torch.randint(2, (bands,), generator=generator) * 2.0 - 1
        spread = torch.zeros(slots, bands)
        if slots:
            spread[slot_of_band, torch.arange(bands)] = sign_of_band
        half = torch.ones(FRAMES_PER_SECOND, 1)
        half[FRAMES_PER_SECOND // 2 :] = -1
        start = half * spread.repeat_interleave(INIT_BAND_BINS, 1)[:, None]
        self.write = nn.Parameter(start)
        self.read = nn.Parameter(start.clone())

    def forward(self) -> Carriers:
        """The streams as carriers, (slots, FRAMES_PER_SECOND, bins)."""
        return Carriers(self.write, self.read)


class LearnedCarrierNet(Ideaw):
    """The dual-stage network with learned carriers: the paper's, and the baseline in the manner of WavMark."""

    def __init__(self, config: NetConfig) -> None:
        super().__init__(config)
        on_spectra = config.domain == "spectrum"
        if on_spectra:
            nn.init.ones_(self.llr_scale)
        generator = torch.Generator().manual_seed(1)
        kind = LearnedSignals if on_spectra else LearnedStreams
        self.message_carriers = kind(config, config.message_slots, generator)
        self.code_carriers = kind(config, config.code_slots, generator)

    def carriers(self, key_label: str = "training") -> tuple[Carriers, Carriers]:
        """Carriers of message and locating code, the same for every key."""
        return self.message_carriers(), self.code_carriers()
