"""The dual-stage network: stage 1 embeds the message, stage 2 the locating code on top of it; extraction
runs the same blocks backwards, stage 2 first, after the balance block that only the extractor has.

Three functions on spectra and watermark streams, `mark`, `locate` and `read`, are the whole network; they are
what is exported, and they take any number of frames. Around them lie the segment functions of the paper: `embed`
and `extract` on one second of audio.
"""

import copy

import torch
from torch import Tensor, nn

from ideaw.nets.blocks import InvertibleBlock, mixed_precision, subnet_kind
from ideaw.nets.carriers import Carriers, LearnedSignals, LearnedStreams, drawn
from ideaw.nets.config import NetConfig
from ideaw.nets.domains import Magnitudes, Spectrum, fold, unfold
from ideaw.nets.spectrum import istft, level, stft


class Stage(nn.Module):
    """A row of invertible blocks: host and watermark stream in, host and watermark stream out."""

    def __init__(self, config: NetConfig, blocks: int, width: int, side: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(InvertibleBlock(config, width, i == 0, side) for i in range(blocks))

    def forward(self, x: Tensor, s: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
        for block in self.blocks:
            x, s = block(x, s, side)
        return x, s

    def find(self, x: Tensor, s: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse as far as the watermark stream that came in; the host stream is left for `clear`."""
        for number, block in reversed(list(enumerate(self.blocks))):
            assert isinstance(block, InvertibleBlock)
            s = block.find(x, s, side)
            x = block.clear(x, s) if number else x
        return x, s

    def clear(self, x: Tensor, s: Tensor) -> Tensor:
        """The rest of the way: the host stream without what the first block has added to it."""
        for block in self.blocks[:1]:
            assert isinstance(block, InvertibleBlock)
            x = block.clear(x, s)
        return x


class BalanceBlock(nn.Module):
    """Brings attacked audio back towards what the inverse stages expect: (batch, channels, …) to the same size."""

    def __init__(self, config: NetConfig, side: int) -> None:
        super().__init__()
        make = subnet_kind(config)
        self.nets = nn.ModuleList(
            make(config.channels + side, config.balance_width, config.channels, config.bands)
            for _ in range(config.balance_blocks)
        )

    def forward(self, x: Tensor, side: Tensor) -> Tensor:
        for net in self.nets:
            with mixed_precision(x):
                correction = net(torch.cat([x, side], 1))
            x = x + correction.float()
        return x


class Ideaw(nn.Module):
    """The network of one configuration, as it is trained and exported."""

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.config = config
        self.domain = (Magnitudes if config.domain == "magnitude" else Spectrum)(config)
        self.message_stage = Stage(config, config.message_blocks, config.message_width, self.domain.side)
        self.code_stage = Stage(config, config.code_blocks, config.code_width, self.domain.side)
        self.message_reader: Stage | None = None
        self.code_reader: Stage | None = None
        if not config.shared:
            self.message_reader, self.code_reader = copy.deepcopy((self.message_stage, self.code_stage))
        self.balance = BalanceBlock(config, self.domain.side)
        signals = config.carriers == "learned" and config.domain == "spectrum"
        self.sharpness = nn.Parameter(torch.full((2,), 1.0 if signals else 0.1))
        """Of a reading of message and of code: how many log-odds a unit of the stream is worth."""
        if config.carriers == "learned":
            start, learned = torch.Generator().manual_seed(1), LearnedSignals if signals else LearnedStreams
            self.message_carriers = learned(config, config.message_slots, start)
            self.code_carriers = learned(config, config.code_slots, start)

    def carriers(self, owner: str = "training") -> tuple[Carriers, Carriers]:
        """Carriers of message and code: learned ones, or the tiles of an owner."""
        if self.config.carriers == "learned":
            return self.message_carriers(), self.code_carriers()
        device = str(self.sharpness.device)
        message = drawn(self.config.message_slots, self.width, owner, "message", device)
        return message, drawn(self.config.code_slots, self.width, owner, "code", device)

    @property
    def width(self) -> int:
        """Numbers in a stream for every frame."""
        return self.config.parts * self.config.bins

    # On spectra (batch, frames, BINS, 2) and watermark streams (batch, frames, width): what is exported.

    def mark(self, host: Tensor, message: Tensor, code: Tensor | None) -> Tensor:
        """Host and the streams of message and code (None: stage 1 alone) → the residual that marks the host."""
        before, side = self.domain.look(host)
        after, _ = self.message_stage(before, self._fold(message), side)
        if code is not None:
            after, _ = self.code_stage(after, self._fold(code), side)
        return self.domain.residual(host, after - before)

    def locate(self, received: Tensor, balanced: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What was received → the code's stream, and for `read` the host stream, what is told besides, and the code.

        The host still has in it what the first block of stage 2 added: only a message needs it without.
        """
        host, side = self.domain.look(received)
        if balanced:
            host = self.balance(host, side)
        host, found = (self.code_reader or self.code_stage).find(host, self._auxiliary(host), side)
        return self.sharpness[1] * unfold(found, self.config.parts), host, side, found

    def read(self, host: Tensor, side: Tensor, found: Tensor) -> Tensor:
        """What `locate` left for it → the message's stream."""
        return self._read_first_stage((self.code_reader or self.code_stage).clear(host, found), side)

    # On segments (batch, SEGMENT) of 16 kHz audio; slots (batch, slots) of −1 and +1.

    def embed(
        self,
        audio: Tensor,
        message: Tensor,
        code: Tensor | None,
        snr: Tensor | float | None,
        carriers: tuple[Carriers, Carriers],
        phase: Tensor | None = None,
    ) -> Tensor:
        """Audio with the mark in it, exactly `snr` dB below it (None: as the network leaves it).

        `phase` (batch,) is the frame of the ring that the segment begins with. Without a code, stage 1 alone.
        """
        loudness = level(audio)
        code_stream = None if code is None else carriers[1].stream(code, phase)
        spectrum = torch.view_as_real(stft(audio / loudness))
        residual = self.mark(spectrum, carriers[0].stream(message, phase), code_stream)
        residual = istft(torch.view_as_complex(residual.contiguous())) * loudness
        return audio + (residual if snr is None else limit(residual, audio, snr))

    def extract(
        self,
        audio: Tensor,
        carriers: tuple[Carriers, Carriers],
        phase: Tensor | None = None,
        balanced: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """Logits of the slots of message and code, positive for 1."""
        code, *rest = self.locate(_spectrum(audio), balanced)
        return carriers[0].logits(self.read(*rest), phase), carriers[1].logits(code, phase)

    def extract_first_stage(
        self, audio: Tensor, carriers: tuple[Carriers, Carriers], phase: Tensor | None = None
    ) -> Tensor:
        """Logits of the message's slots where only stage 1 has marked."""
        return carriers[0].logits(self._read_first_stage(*self.domain.look(_spectrum(audio))), phase)

    def _read_first_stage(self, host: Tensor, side: Tensor) -> Tensor:
        _, message = (self.message_reader or self.message_stage).find(host, self._auxiliary(host), side)
        return self.sharpness[0] * unfold(message, self.config.parts)

    def _fold(self, stream: Tensor) -> Tensor:
        return fold(stream, self.config.parts, self.config.bands)

    def _auxiliary(self, like: Tensor) -> Tensor:
        return torch.randn_like(like) if self.config.auxiliary == "random" else torch.zeros_like(like)


def apart(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a network whose extractor shares the embedder's, for one that only begins with a copy of them."""
    return {name.replace("_stage.", "_reader."): tensor for name, tensor in weights.items()} | weights


def _spectrum(audio: Tensor) -> Tensor:
    return torch.view_as_real(stft(audio / level(audio)))


def limit(residual: Tensor, audio: Tensor, snr: Tensor | float) -> Tensor:
    """The residual at exactly `snr` dB below the audio, segment by segment: level by construction."""
    allowed = audio.norm(dim=-1) * 10 ** (-torch.as_tensor(snr, device=audio.device) / 20)
    return residual * (allowed / residual.norm(dim=-1).clamp_min(1e-9))[:, None]
