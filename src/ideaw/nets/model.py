"""The dual-stage network: stage 1 embeds the message, stage 2 the locating code on top of it; extraction
runs the same blocks backwards, stage 2 first, after the balance block that only the extractor has.

Three functions on spectra and watermark streams, `mark`, `locate` and `read`, are the whole network; they are
what is exported, and they take any number of frames. Around them lie the segment functions of the paper: `embed`
and `extract` on one second of audio.
"""

import copy

import torch
from torch import Tensor, nn

from ideaw.nets.blocks import InvertibleBlock, mixed_precision, subnet_class
from ideaw.nets.carriers import Carriers, keyed_carriers
from ideaw.nets.config import NetConfig
from ideaw.nets.domains import MagnitudeDomain, SpectrumDomain, squeeze_bins, unsqueeze_bins
from ideaw.nets.level import level, scale_to_snr
from ideaw.nets.stft import istft, stft

INIT_LLR_SCALE = 0.1
"""LLR per unit of an extracted stream, before training."""


class Stage(nn.Module):
    """A row of invertible blocks.

    Args:
        config: Sizes of the streams.
        blocks: Number of blocks.
        width: Hidden channels of their subnets.
        condition_channels: Channels of the conditioning.
    """

    def __init__(self, config: NetConfig, blocks: int, width: int, condition_channels: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(InvertibleBlock(config, width, i == 0, condition_channels) for i in range(blocks))

    def forward(self, x: Tensor, s: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        """Host and watermark stream in, both out: (batch, channels, frames, bands) each."""
        for block in self.blocks:
            x, s = block(x, s, condition)
        return x, s

    def invert_mark(self, x: Tensor, s: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse as far as the watermark stream that came in; the host stream is left for `invert_host`."""
        for number, block in reversed(list(enumerate(self.blocks))):
            assert isinstance(block, InvertibleBlock)
            s = block.invert_mark(x, s, condition)
            x = block.invert_host(x, s) if number else x
        return x, s

    def invert_host(self, x: Tensor, s: Tensor) -> Tensor:
        """The rest of the inverse: the host stream that came in, without what the first block has added to it."""
        for block in self.blocks[:1]:
            assert isinstance(block, InvertibleBlock)
            x = block.invert_host(x, s)
        return x


class BalanceBlock(nn.Module):
    """Brings attacked audio back towards what the inverse stages expect.

    Args:
        config: Number and width of its subnets.
        condition_channels: Channels of the conditioning.
    """

    def __init__(self, config: NetConfig, condition_channels: int) -> None:
        super().__init__()
        subnet = subnet_class(config)
        self.nets = nn.ModuleList(
            subnet(config.channels + condition_channels, config.balance_width, config.channels, config.bands)
            for _ in range(config.balance_blocks)
        )

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """(batch, channels, frames, bands) → the same shape."""
        for net in self.nets:
            with mixed_precision(x):
                correction = net(torch.cat([x, condition], 1))
            x = x + correction.float()
        return x


class Ideaw(nn.Module):
    """The network of one configuration, as it is trained and exported, with keyed carriers.

    Args:
        config: Its sizes and choices.
    """

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.config = config
        self.domain = (MagnitudeDomain if config.domain == "magnitude" else SpectrumDomain)(config)
        conditions = self.domain.condition_channels
        self.message_stage = Stage(config, config.message_blocks, config.message_width, conditions)
        self.code_stage = Stage(config, config.code_blocks, config.code_width, conditions)
        self.message_reader: Stage | None = None
        self.code_reader: Stage | None = None
        if not config.shared:
            self.message_reader, self.code_reader = copy.deepcopy((self.message_stage, self.code_stage))
        self.balance = BalanceBlock(config, conditions)
        self.llr_scale = nn.Parameter(torch.full((2,), INIT_LLR_SCALE))
        """LLR per unit of the extracted streams of message and locating code."""

    def carriers(self, key_label: str = "training") -> tuple[Carriers, Carriers]:
        """Carriers of message and locating code, drawn from a label."""
        device = str(self.llr_scale.device)
        message = keyed_carriers(self.config.message_slots, self.stream_width, key_label, "message", device)
        return message, keyed_carriers(self.config.code_slots, self.stream_width, key_label, "code", device)

    @property
    def stream_width(self) -> int:
        """Numbers in a stream for every frame."""
        return self.config.components * self.config.bins

    # On spectra (batch, frames, NUM_BINS, 2) and streams (batch, frames, stream_width): what is exported.

    def mark(self, host: Tensor, message: Tensor, code: Tensor | None) -> Tensor:
        """The residual that marks a host.

        Args:
            host: (batch, frames, NUM_BINS, 2) spectrum of audio of level 1.
            message: (batch, frames, stream_width) watermark stream of the message.
            code: The same of the locating code; None: stage 1 alone.

        Returns:
            (batch, frames, NUM_BINS, 2).
        """
        before, condition = self.domain.analyse(host)
        after, _ = self.message_stage(before, self._squeeze(message), condition)
        if code is not None:
            after, _ = self.code_stage(after, self._squeeze(code), condition)
        return self.domain.to_residual(host, after - before)

    def locate(self, received: Tensor, balanced: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Invert stage 2 as far as the locating code needs it.

        Args:
            received: (batch, frames, NUM_BINS, 2) spectrum of audio of level 1.
            balanced: Whether the balance block comes first.

        Returns:
            The locating code's stream (batch, frames, stream_width), and what `read` goes on from: host stream,
            conditioning and the locating code's stream, squeezed. That host stream still holds what the first block of
            stage 2 added: only the message needs it without.
        """
        host, condition = self.domain.analyse(received)
        if balanced:
            host = self.balance(host, condition)
        host, code = (self.code_reader or self.code_stage).invert_mark(host, self._auxiliary(host), condition)
        return self.llr_scale[1] * unsqueeze_bins(code, self.config.components), host, condition, code

    def read(self, host: Tensor, condition: Tensor, code: Tensor) -> Tensor:
        """The message's stream (batch, frames, stream_width) from what `locate` leaves, all of it squeezed."""
        return self._read_first_stage((self.code_reader or self.code_stage).invert_host(host, code), condition)

    # On segments (batch, SEGMENT_SAMPLES) of 16 kHz audio; slots (batch, slots) of −1 and +1.

    def embed(
        self,
        audio: Tensor,
        message: Tensor,
        code: Tensor | None,
        snr: Tensor | float | None,
        carriers: tuple[Carriers, Carriers],
        phase: Tensor | None = None,
    ) -> Tensor:
        """Mark segments.

        Args:
            audio: (batch, SEGMENT_SAMPLES).
            message: (batch, message_slots).
            code: (batch, code_slots); None: stage 1 alone.
            snr: dB that the mark lies below each segment, exactly; None: as the network leaves it.
            carriers: Of message and locating code.
            phase: (batch,) frame of the ring that each segment begins with.

        Returns:
            (batch, SEGMENT_SAMPLES).
        """
        rms = level(audio)
        code_stream = None if code is None else carriers[1].stream(code, phase)
        spectrum = torch.view_as_real(stft(audio / rms))
        residual = self.mark(spectrum, carriers[0].stream(message, phase), code_stream)
        residual = istft(torch.view_as_complex(residual.contiguous())) * rms
        return audio + (residual if snr is None else scale_to_snr(residual, audio, snr))

    def extract(
        self,
        audio: Tensor,
        carriers: tuple[Carriers, Carriers],
        phase: Tensor | None = None,
        balanced: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """LLRs of the slots of message and locating code, (batch, slots) each, positive for +1.

        Args:
            audio: (batch, SEGMENT_SAMPLES).
            carriers: Of message and locating code.
            phase: (batch,) frame of the ring that each segment begins with.
            balanced: Whether the balance block comes first.
        """
        code, *state = self.locate(_normalised_spectrum(audio), balanced)
        return carriers[0].slot_llrs(self.read(*state), phase), carriers[1].slot_llrs(code, phase)

    def extract_first_stage(
        self, audio: Tensor, carriers: tuple[Carriers, Carriers], phase: Tensor | None = None
    ) -> Tensor:
        """LLRs of the message's slots (batch, slots) where only stage 1 has marked; arguments as in `extract`."""
        host, condition = self.domain.analyse(_normalised_spectrum(audio))
        return carriers[0].slot_llrs(self._read_first_stage(host, condition), phase)

    def _read_first_stage(self, host: Tensor, condition: Tensor) -> Tensor:
        _, message = (self.message_reader or self.message_stage).invert_mark(host, self._auxiliary(host), condition)
        return self.llr_scale[0] * unsqueeze_bins(message, self.config.components)

    def _squeeze(self, stream: Tensor) -> Tensor:
        return squeeze_bins(stream, self.config.components, self.config.bands)

    def _auxiliary(self, like: Tensor) -> Tensor:
        return torch.randn_like(like) if self.config.auxiliary == "random" else torch.zeros_like(like)


def untie_extractor(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a network with shared blocks, for one whose extractor has its own: they begin as a copy."""
    return {name.replace("_stage.", "_reader."): tensor for name, tensor in weights.items()} | weights


def _normalised_spectrum(audio: Tensor) -> Tensor:
    """(batch, samples) → (batch, frames, NUM_BINS, 2) at level 1."""
    return torch.view_as_real(stft(audio / level(audio)))
