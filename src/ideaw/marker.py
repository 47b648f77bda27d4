"""The front door: load a model, mark audio, find the mark again; arrays or files.

Marking goes: samples → 16 kHz, channel by channel → the network's residual → back to the rate of the
samples → added to the untouched original. Detection goes: the mix at 16 kHz → the code's place → the message.
"""

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio import files
from ideaw.audio.grid import HOP, RATE, SEGMENT
from ideaw.audio.rates import from_network, mix, network_length, to_network
from ideaw.audio.samples import SILENCE, as_float, check, check_not_silent, restore
from ideaw.engine import scan, whole
from ideaw.engine.network import Card, Network
from ideaw.engine.segments import embed_segments, extract_segments
from ideaw.engine.strength import fit_to_grid
from ideaw.engine.whole import Progress
from ideaw.errors import AudioError, IdeawError, MessageError, ModelError
from ideaw.payload.code import locating_code
from ideaw.payload.keys import PUBLIC, Key
from ideaw.payload.message import Content, Message
from ideaw.results import Detection, Segment

DEFAULT_MODEL = "46+10"

SURE = 1e-6
"""The p-value below which a code counts as there."""

LOWEST_SNR, HIGHEST_SNR = 0.0, 100.0
"""SNRs in dB that can be asked for."""

LEFT = 0.25
"""Share of a mark that must be left when it is rounded to the samples' width: at 0.17 it was lost, at 0.26 found."""

Given = str | bytes | Iterable[int | bool]
"""A message as users give it: text, bytes, or a sequence of zeros and ones."""


def model_names() -> list[str]:
    """The names of the packaged models."""
    return sorted(entry.name for entry in _packaged().iterdir() if entry.joinpath("card.json").is_file())


def model_folder(name: str) -> Traversable:
    """Where a packaged model lies."""
    return _packaged().joinpath(name)


def _packaged() -> Traversable:
    return resources.files("ideaw").joinpath("models")


def load(model: str | os.PathLike[str] | None = None, *, key: Key = PUBLIC, threads: int | None = None) -> "Marker":
    """A marker with a packaged model (by its name; None: the default) or with the model folder at a path.

    Marks made with a `key` are found with no other. `threads` is how many the network may use (None: all cores).
    """
    name = DEFAULT_MODEL if model is None else os.fspath(model)
    if name in (known := model_names()):
        return Marker(Network(model_folder(name), threads, _packaged()), key)
    if Path(name).is_dir():
        return Marker(Network(Path(name), threads), key)
    packaged = ", ".join(known) or "none"
    raise ModelError(f'there is no model "{name}"; packaged: {packaged}; or give the path of a model folder')


class Marker:
    """One model, ready to mark and to find with a key; made by `load`. It may be shared between threads."""

    def __init__(self, network: Network, key: bytes = PUBLIC) -> None:
        self._network, self._key = network.with_key(key), key
        self._code = locating_code(network.card.code_bits, key)

    @property
    def card(self) -> Card:
        """What the model says about itself."""
        return self._network.card

    @property
    def message_bits(self) -> int:
        """Message bits in one second."""
        return self.card.message_bits

    @property
    def code_bits(self) -> int:
        """Bits of the locating code."""
        return self.card.code_bits

    # Audio of any length

    def embed(
        self,
        samples: ArrayLike,
        rate: int,
        message: Given,
        *,
        snr: float | None = None,
        progress: Progress | None = None,
    ) -> NDArray:
        """`(n,)` or `(n, channels)` samples with the message in every second; shape, rate and type stay.

        Every second of every channel keeps at least `snr` dB (None: what the model's card says).
        """
        array = np.asarray(samples)
        floats = as_float(array)
        return restore(self._marked(floats, rate, Message.of(message), snr, _step(array), progress), array)

    def detect(self, samples: ArrayLike, rate: int, *, progress: Progress | None = None) -> Detection:
        """Search `(n,)` or `(n, channels)` samples for a mark: in their mix, then in each channel."""
        floats = as_float(samples)
        check(floats, rate)
        looks = [mix(floats)]
        if floats.shape[1] > 1 and np.ptp(floats, axis=1).any():
            looks.extend(floats.T)
        best: Detection | None = None
        for number, look in enumerate(looks):
            part = whole.part(progress, number / len(looks), (number + 1) / len(looks))
            found = self._search(to_network(look[:, None], int(rate))[0], len(looks), part)
            if best is None or (found.found, -found.p_value) > (best.found, -best.p_value):
                best = found
            if best.found:
                break
        if progress:
            progress(1.0)
        assert best is not None
        return best

    def embed_file(
        self,
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        message: Given,
        *,
        snr: float | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Mark the file `source` as `target`, whose extension gives the format; it appears whole or not at all."""
        files.same_file(source, target)
        wanted = Message.of(message)
        wanted.frame(self.message_bits, self._key)
        recording = files.read(source)
        step = files.step(target, recording.encoding)
        marked = self._marked(recording.samples, recording.rate, wanted, snr, step, progress)
        files.write(target, restore(marked, recording.samples), recording.rate, recording.encoding)

    def detect_file(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Detection:
        """Search the file at `path` for a mark."""
        recording = files.read(path)
        return self.detect(recording.samples, recording.rate, progress=progress)

    # The paper's own level: one-second segments at 16 kHz whose location is known

    def embed_segment(
        self, x: ArrayLike, message_bits: ArrayLike, code_bits: ArrayLike, snr: float | None = None
    ) -> NDArray:
        """`(16000,)` or `(batch, 16000)` with `(…, bits)` zeros and ones in it, `snr` dB below; shape and type stay."""
        array = np.asarray(x)
        audio = _segments(array)
        message = _bits(message_bits, len(audio), self.message_bits, "message")
        code = _bits(code_bits, len(audio), self.code_bits, "code")
        wanted = self._snr(snr)
        marked = embed_segments(self._network, audio, message, code, wanted)
        pairs = zip(audio, marked - audio, strict=True)
        fitted = [fit_to_grid(residual, host, wanted, SEGMENT, _step(array)) for host, residual in pairs]
        return restore(audio + np.stack(fitted), array)

    def extract_segment(self, y: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """`(16000,)` or `(batch, 16000)` → logits of message and code, `(bits,)` or `(batch, bits)`; positive = 1."""
        array = np.asarray(y)
        message, code = extract_segments(self._network, _segments(array))
        return (message[0], code[0]) if array.ndim == 1 else (message, code)

    def _marked(
        self,
        floats: NDArray[np.float64],
        rate: int,
        message: Message,
        snr: float | None,
        step: float,
        progress: Progress | None,
    ) -> NDArray[np.float64]:
        """`(n, channels)` with the mark in it; what is added is in multiples of `step`, unless that is 0."""
        check(floats, rate)
        check_not_silent(floats)
        rate, wanted = int(rate), self._snr(snr)
        frame = message.frame(self.message_bits, self._key)
        messages = np.tile(frame, (-(-network_length(len(floats), rate) // SEGMENT), 1))
        audio = to_network(floats, rate)
        if np.square(audio, dtype=np.float64).mean() < 10 ** (SILENCE / 10):
            raise AudioError(f"the audio is silent below {RATE // 2} Hz; a mark needs sound to hide under there")
        narrow = whole.residual(self._network, audio, messages, self._code, wanted, progress)
        residual = from_network(narrow, rate, len(floats))
        marked = floats.copy()
        for channel in range(floats.shape[1]):
            original = floats[:, channel]
            marked[:, channel] += fit_to_grid(residual[:, channel], original, wanted, rate, step)
        if np.vdot(marked - floats, residual) < LEFT * np.vdot(residual, residual):
            raise AudioError(
                f"too quiet: a mark {wanted:g} dB below this audio rounds away; use wider samples or a lower SNR"
            )
        return marked

    def _search(self, audio: NDArray[np.float32], looks: int, progress: Progress | None) -> Detection:
        """The answer for `(n,)` at 16 kHz; `looks` is how many such searches there may be, each with its chance."""
        slots, carriers = self._network.code.values(self._code), self._network.code.carriers
        stream = whole.code_stream(self._network, audio, whole.part(progress, 0.0, 0.3))
        tracks = scan.tracks(stream, carriers, slots)
        chances = [min(1.0, looks * math.exp(track.log_p)) for track in tracks]
        p_value = min(chances, default=1.0)
        if p_value >= SURE:
            return Detection(False, None, p_value, [], ())
        message_stream = whole.message_stream(self._network, audio, whole.part(progress, 0.3, 1.0))
        readings = []
        for track in (track for track, chance in zip(tracks, chances, strict=True) if chance < SURE):
            reading = self._read(message_stream, [track])
            known = [(stream, carriers, slots)]
            if reading.message:
                sent = self._network.message.values(reading.message.frame(self.message_bits, self._key))
                known.append((message_stream, self._network.message.carriers, sent))
            first, last = scan.span(known, track)
            readings.append((reading, track, min(first * HOP, len(audio)), min(last * HOP, len(audio))))
        best = next((reading for reading, *_ in readings if reading.message), None)
        best = best or self._read(message_stream, [track for _, track, *_ in readings])
        segments = [
            Segment(start / RATE, end / RATE, float(track.scores.mean()), reading.message is not None, reading.content)
            for reading, track, start, end in sorted(readings, key=lambda entry: entry[2])
        ]
        return Detection(best.message is not None, best.content, p_value, segments, tuple(map(float, best.logits)))

    def _read(self, message_stream: NDArray[np.float32], tracks: list[scan.Track]) -> "_Reading":
        """The message in the seconds of some tracks together, each weighted by its evidence."""
        starts, weights = (np.concatenate([getattr(t, name) for t in tracks]) for name in ("starts", "scores"))
        each = scan.slot_logits(message_stream, self._network.message.carriers, starts)
        logits = self._network.message.code.decode(weights.clip(0) @ each)
        return _Reading(logits, Message.of_frame(logits > 0, self._key))

    def _snr(self, snr: float | None) -> float:
        wanted = self.card.snr if snr is None else snr
        if not isinstance(wanted, int | float | np.number) or not LOWEST_SNR <= wanted <= HIGHEST_SNR:
            raise IdeawError(f"an SNR of {wanted} cannot be kept; give {LOWEST_SNR:g} to {HIGHEST_SNR:g} dB")
        return float(wanted)


@dataclass(frozen=True)
class _Reading:
    """Soft bits, and the message in them if they pass its check."""

    logits: NDArray[np.float32]
    message: Message | None

    @property
    def content(self) -> Content | None:
        return None if self.message is None else self.message.content


def embed_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    message: Given,
    *,
    model: str | None = None,
    snr: float | None = None,
    progress: Progress | None = None,
) -> None:
    """Mark the file `source` as `target`; see `Marker.embed_file`."""
    _shared(model).embed_file(source, target, message, snr=snr, progress=progress)


def detect_file(
    path: str | os.PathLike[str], *, model: str | None = None, progress: Progress | None = None
) -> Detection:
    """Search the file at `path` for a mark; see `Marker.detect`."""
    return _shared(model).detect_file(path, progress=progress)


_shared = cache(load)


def _step(array: NDArray) -> float:
    """From one value of integer samples to the next, where 1 is full scale; 0 for floats."""
    return 2.0 ** (1 - 8 * array.dtype.itemsize) if array.dtype.kind in "iu" else 0.0


def _segments(array: NDArray) -> NDArray[np.float64]:
    """`(16000,)` or `(batch, 16000)` as `(batch, 16000)` floats; `AudioError` for anything else."""
    if array.ndim not in (1, 2) or array.shape[-1] != SEGMENT or not array.size:
        raise AudioError(f"segments of shape {array.shape} cannot be used; give ({SEGMENT},) or (batch, {SEGMENT})")
    audio = as_float(np.atleast_2d(array))
    if not np.isfinite(audio).all():
        raise AudioError("some samples are NaN or infinite; replace them, for instance with numpy.nan_to_num")
    return audio


def _bits(given: ArrayLike, batch: int, count: int, what: str) -> NDArray[np.uint8]:
    """Zeros and ones `(count,)` or `(batch, count)` as `(batch, count)`; else `MessageError`."""
    bits = np.asarray(given)
    if bits.shape not in ((count,), (batch, count)):
        raise MessageError(f"{what} bits of shape {bits.shape} do not fit; give ({count},) or ({batch}, {count})")
    if bits.dtype.kind not in "biuf" or not np.isin(bits, (0, 1)).all():
        raise MessageError(f"the {what} bits are not all 0 or 1")
    return np.broadcast_to(bits.astype(np.uint8), (batch, count))
