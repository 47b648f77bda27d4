"""Phase vocoder and STFT in torch, for batches (batch, n); `vocoder.py` is the same for arrays of any length."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from ideaw.attacks import responses


def _overlap_add(frames: Tensor) -> Tensor:
    """Frames (batch, window_samples, count) at hops of a quarter of that -> (batch, (count + 3)·window_samples / 4)."""
    quarters = frames.chunk(4, 1)
    out = sum(F.pad(quarter, (i, 3 - i)) for i, quarter in enumerate(quarters))
    assert isinstance(out, Tensor)
    return out.transpose(1, 2).flatten(1)


def analyse(x: Tensor, window: Tensor) -> Tensor:
    """(batch, n) -> (batch, bins, frames): its spectrum at steps of a quarter of the window."""
    window_samples = len(window)
    return torch.stft(
        x, window_samples, window_samples // 4, window=window, center=True, pad_mode="constant", return_complex=True
    )


def synthesise(spectrum: Tensor, window: Tensor, length: int) -> Tensor:
    """The way back, to `length` samples."""
    window_samples = len(window)
    pieces = torch.fft.irfft(spectrum, window_samples, dim=-2) * window[:, None]
    weight = _overlap_add(window.square()[None, :, None].expand(1, window_samples, spectrum.shape[-1]))
    y = _overlap_add(pieces)[:, window_samples // 2 : window_samples // 2 + length]
    y = y / weight[:, window_samples // 2 : window_samples // 2 + length].clamp_min(1e-6)
    return F.pad(y, (0, length - y.shape[-1]))


def change_tempo(x: Tensor, speed: float, window_samples: int) -> Tensor:
    """Phase vocoder: `x` (batch, n) played `speed` times as fast, (batch, round(n / speed)).

    Magnitudes are interpolated between frames and carry the gradient; phases add up the advances between
    neighbouring frames, which is all that the accumulated phase is once whole turns are dropped.
    """
    window = torch.hann_window(window_samples, device=x.device)
    spectrum = analyse(x, window)
    frames = spectrum.shape[-1]
    spectrum = F.pad(spectrum, (0, 2))
    steps = torch.arange(responses.num_stretched_frames(frames, speed), device=x.device, dtype=torch.float64) * speed
    left = steps.floor().long()
    share = (steps - left).float()
    magnitude, phase = spectrum.abs(), spectrum.detach().angle()
    magnitude = (1 - share) * magnitude[..., left] + share * magnitude[..., left + 1]
    advance = phase[..., left + 1] - phase[..., left]
    advance = torch.cat((phase[..., :1], advance[..., :-1]), -1)
    advance = advance - 2 * math.pi * (advance / (2 * math.pi)).round()
    phase = advance.cumsum(-1)
    return synthesise(torch.polar(magnitude, phase), window, round(x.shape[-1] / speed))
