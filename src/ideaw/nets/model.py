"""The dual-stage network: stage 1 embeds the message, stage 2 the locating code on top of it; extraction
runs the same blocks backwards, stage 2 first, after the balance block that only the extractor has.

Three functions on squeezed spectra, `mark`, `locate` and `read`, are the whole network; they are what is
exported, and they take any number of frames. Around them lie the segment functions of the paper: `embed`
and `extract` on one second of audio.
"""

import torch
from torch import Tensor, nn

from ideaw.audio.grid import BINS, HOP, RATE, SEGMENT
from ideaw.nets.blocks import InvertibleBlock, features, mixed_precision, seen_channels, subnet_kind
from ideaw.nets.config import NetConfig
from ideaw.nets.regulators import Regulators
from ideaw.nets.spectrum import istft, level, stft


class Stage(nn.Module):
    """A row of invertible blocks: host and watermark stream in, host and watermark stream out."""

    def __init__(self, config: NetConfig, blocks: int, width: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(InvertibleBlock(config, width, first=i == 0) for i in range(blocks))

    def forward(self, x: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        for block in self.blocks:
            x, s = block(x, s)
        return x, s

    def inverse(self, x: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        for block in reversed(list(self.blocks)):
            assert isinstance(block, InvertibleBlock)
            x, s = block.inverse(x, s)
        return x, s


class BalanceBlock(nn.Module):
    """Brings attacked audio back towards what the inverse stages expect: (batch, channels, …) to the same size."""

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.shaped = config.shaped
        make = subnet_kind(config)
        self.nets = nn.ModuleList(
            make(seen_channels(config), config.balance_width, config.channels, config.bands)
            for _ in range(config.balance_blocks)
        )

    def forward(self, x: Tensor) -> Tensor:
        for net in self.nets:
            seen = features(x) if self.shaped else x
            with mixed_precision(x):
                correction = net(seen)
            x = x + correction.float()
        return x


class Ideaw(nn.Module):
    """The network of one configuration, as it is trained and exported."""

    whitening: Tensor

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.config = config
        self.message_stage = Stage(config, config.message_blocks, config.message_width)
        self.code_stage = Stage(config, config.code_blocks, config.code_width)
        self.balance = BalanceBlock(config)
        self.message_regulators = Regulators(config.message_bits, config.carriers, seed=1)
        self.code_regulators = Regulators(config.code_bits, config.carriers, seed=2)
        self.register_buffer("whitening", _whitening(config), persistent=False)

    # On squeezed spectra (batch, channels, frames, bands): what is exported.

    def mark(self, host: Tensor, message: Tensor, code: Tensor | None) -> Tensor:
        """Host and the streams of message and code (None: stage 1 alone) → the residual that marks the host."""
        before = host * self.whitening
        after, _ = self.message_stage(before, message)
        if code is not None:
            after, _ = self.code_stage(after, code)
        return (after - before) / self.whitening

    def locate(self, received: Tensor, balanced: bool = True) -> tuple[Tensor, Tensor]:
        """What was received → the code's stream, and the host stream that `read` goes on with."""
        received = received * self.whitening
        if balanced:
            received = self.balance(received)
        host, code = self.code_stage.inverse(received, self._auxiliary(received))
        return code, host

    def read(self, host: Tensor) -> Tensor:
        """The host stream from `locate` → the message's stream."""
        return self.message_stage.inverse(host, self._auxiliary(host))[1]

    # On segments (batch, SEGMENT) of 16 kHz audio; bits (batch, bits) of −1 and +1.

    def embed(
        self,
        audio: Tensor,
        message: Tensor,
        code: Tensor | None,
        snr: Tensor | float | None,
        phase: Tensor | None = None,
    ) -> Tensor:
        """Audio with the mark in it, exactly `snr` dB below it (None: as the network leaves it).

        `phase` (batch,) is the frame of the ring that the segment begins with. Without a code, stage 1 alone.
        """
        loudness = level(audio)
        message_stream = self.stream(self.message_regulators, message, phase)
        code_stream = None if code is None else self.stream(self.code_regulators, code, phase)
        residual = self.mark(self.squeeze(stft(audio / loudness)), message_stream, code_stream)
        residual = istft(self.unsqueeze(residual)) * loudness
        return audio + (residual if snr is None else limit(residual, audio, snr))

    def extract(self, audio: Tensor, phase: Tensor | None = None, balanced: bool = True) -> tuple[Tensor, Tensor]:
        """Logits of message and code, positive for 1."""
        code, host = self.locate(self.squeeze(stft(audio / level(audio))), balanced)
        message = self.read(host)
        return self.logits(self.message_regulators, message, phase), self.logits(self.code_regulators, code, phase)

    def extract_first_stage(self, audio: Tensor, phase: Tensor | None = None) -> Tensor:
        """Logits of the message where only stage 1 has marked."""
        message = self.read(self.squeeze(stft(audio / level(audio))) * self.whitening)
        return self.logits(self.message_regulators, message, phase)

    def stream(self, regulators: Regulators, bits: Tensor, phase: Tensor | None) -> Tensor:
        """Bits → the watermark stream that carries them."""
        return self.squeeze(stft(turn(regulators.to_signal(bits), phase), ring=True))

    def logits(self, regulators: Regulators, stream: Tensor, phase: Tensor | None) -> Tensor:
        """A watermark stream → the bits that it carries."""
        signal = istft(self.unsqueeze(stream), ring=True)
        return regulators.to_bits(turn(signal, None if phase is None else -phase))

    def squeeze(self, spectrum: Tensor) -> Tensor:
        """(batch, frames, BINS) complex → (batch, channels, frames, bands): neighbouring bins become channels."""
        used = spectrum[..., : self.config.bands * self.config.squeeze]
        bands = used.unflatten(-1, (self.config.bands, self.config.squeeze)).permute(0, 3, 1, 2)
        squeezed = torch.cat([bands.real, bands.imag], 1)
        return squeezed.contiguous(memory_format=torch.channels_last) if squeezed.is_cuda else squeezed

    def unsqueeze(self, squeezed: Tensor) -> Tensor:
        """The way back; bins that no band holds are 0."""
        real, imaginary = squeezed.float().permute(0, 2, 3, 1).chunk(2, -1)
        spectrum = torch.complex(real.contiguous(), imaginary.contiguous()).flatten(-2)
        return nn.functional.pad(spectrum, (0, BINS - spectrum.shape[-1]))

    def _auxiliary(self, like: Tensor) -> Tensor:
        return torch.randn_like(like) if self.config.auxiliary == "random" else torch.zeros_like(like)


def limit(residual: Tensor, audio: Tensor, snr: Tensor | float) -> Tensor:
    """The residual at exactly `snr` dB below the audio, segment by segment: level by construction."""
    allowed = audio.norm(dim=-1) * 10 ** (-torch.as_tensor(snr, device=audio.device) / 20)
    return residual * (allowed / residual.norm(dim=-1).clamp_min(1e-9))[:, None]


def turn(ring: Tensor, phase: Tensor | None) -> Tensor:
    """(batch, SEGMENT) turned so that each begins at its own frame `phase` (batch,)."""
    if phase is None:
        return ring
    index = (torch.arange(SEGMENT, device=ring.device) + phase[:, None] * HOP) % SEGMENT
    return ring.gather(1, index)


def _whitening(config: NetConfig) -> Tensor:
    """Gain (channels, 1, bands) that makes the spectrum of ordinary audio about flat."""
    frequency = torch.arange(config.bands * config.squeeze) * (RATE / 2 / (BINS - 1))
    gain = 1 / (0.02 + 1 / (1 + frequency / 300)) if config.shaped else torch.ones_like(frequency)
    return gain.view(config.bands, config.squeeze).T.repeat(2, 1)[:, None]
