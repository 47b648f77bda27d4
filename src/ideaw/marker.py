"""The front door: load a model, mark audio, find the mark again; arrays or files.

Marking goes: samples → 16 kHz, channel by channel → the network's residual → back to the rate of the
samples → added to the untouched original. Detection goes: the mix at 16 kHz → the code's place → the message.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio import files
from ideaw.audio.grid import RATE, SEGMENT
from ideaw.audio.rates import Resampler, from_network, mix, network_length, to_network
from ideaw.audio.samples import SILENCE, as_float, check, check_not_silent, restore
from ideaw.decision import decide
from ideaw.engine import whole
from ideaw.engine.network import Card, Network
from ideaw.engine.search import WORTH_READING, Search
from ideaw.engine.segments import embed_segments, extract_segments
from ideaw.engine.speeds import ALL, CLOSER, NEAR, Loudest, best_speed
from ideaw.engine.strength import fit_to_grid
from ideaw.engine.whole import Progress
from ideaw.errors import AudioError, IdeawError, MessageError, ModelError
from ideaw.payload.code import locating_code
from ideaw.payload.keys import PUBLIC, Key
from ideaw.payload.message import Message
from ideaw.payload.plan import Plan
from ideaw.results import Detection

DEFAULT_MODEL = "46+10"

Speeds = Literal["none", "near", "all"]
_SPEEDS: dict[Speeds, tuple[float, ...]] = {"none": (), "near": NEAR, "all": ALL}

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

    def __init__(self, network: Network, key: Key = PUBLIC) -> None:
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

    def detect(
        self,
        samples: ArrayLike,
        rate: int,
        *,
        keys: Sequence[Key] | None = None,
        speeds: Speeds = "near",
        progress: Progress | None = None,
    ) -> Detection:
        """Search `(n,)` or `(n, channels)` samples for a mark: in their mix, then in each channel.

        With `keys` for the marks of any of them. Where nothing is found, other `speeds` are tried: those "near" by, up
        to 6 % off; "all" from 0.8 to 1.25; "none".
        """
        floats = as_float(samples)
        check(floats, rate)
        return self._detect(lambda: _cut(floats, int(rate)), int(rate), floats.shape, keys, speeds, progress)

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
        Plan.of(wanted, self.message_bits, self._key)
        recording = files.read(source)
        step = files.step(target, recording.encoding)
        marked = self._marked(recording.samples, recording.rate, wanted, snr, step, progress)
        files.write(target, restore(marked, recording.samples), recording.rate, recording.encoding)

    def detect_file(
        self,
        path: str | os.PathLike[str],
        *,
        keys: Sequence[Key] | None = None,
        speeds: Speeds = "near",
        progress: Progress | None = None,
    ) -> Detection:
        """Search the file at `path` for a mark; see `detect`."""
        recording = files.read(path)
        return self.detect(recording.samples, recording.rate, keys=keys, speeds=speeds, progress=progress)

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
        messages = Plan.of(message, self.message_bits, self._key).frames(len(floats) / rate)
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

    def _detect(
        self,
        blocks: Callable[[], Iterable[NDArray[np.floating]]],
        rate: int,
        shape: tuple[int, int],
        keys: Sequence[Key] | None,
        speeds: Speeds,
        progress: Progress | None,
    ) -> Detection:
        """The answer for audio of a shape (n, channels), which can be gone through in blocks again and again."""
        length, channels = shape
        grid = _SPEEDS[speeds]
        tried = [self._key] if keys is None else list(keys)
        looks = (1 + channels if channels > 1 else 1) + (len(grid) + len(CLOSER) if grid else 0)
        alike, loudest = True, Loudest()

        def look(channel: int | None, pace: float = 1.0) -> Detection:
            nonlocal alike
            search, resampler = self._search(tried), Resampler(rate / pace, RATE, 1)
            done = 0
            for block in blocks():
                alike = alike and not np.ptp(block, axis=1).any()
                chosen = mix(block) if channel is None else block[:, channel]
                audio = resampler.push(chosen[:, None])[:, 0]
                search.push(audio)
                if channel is None and pace == 1:
                    loudest.push(audio)
                done += len(block)
                if progress:
                    progress(min(1.0, done / length))
            audio = resampler.finish(round(network_length(done, rate) * pace))[:, 0]
            search.push(audio)
            if channel is None and pace == 1:
                loudest.push(audio)
            search.finish()
            return decide(search, tried, done / rate, looks, pace)

        answers = [look(None)]
        if not answers[0].found and channels > 1 and not alike:
            for channel in range(channels):
                answers.append(look(channel))
                if answers[-1].found:
                    break
        best = min(answers, key=lambda answer: (not answer.found, answer.p_value))
        if not best.found and grid:
            owners = self._search(tried)
            pace, log_p = best_speed(owners.owners, owners.codes, loudest.samples, grid)
            if looks * len(tried) * math.exp(log_p) < WORTH_READING:
                faster = look(None, pace)
                best = faster if faster.found else best
        return best

    def _search(self, keys: Sequence[Key]) -> Search:
        """A search for the marks of some keys."""
        codes = [locating_code(self.code_bits, key) for key in keys]
        return Search([self._network.with_key(key) for key in keys], codes)

    def _snr(self, snr: float | None) -> float:
        wanted = self.card.snr if snr is None else snr
        if not isinstance(wanted, int | float | np.number) or not LOWEST_SNR <= wanted <= HIGHEST_SNR:
            raise IdeawError(f"an SNR of {wanted} cannot be kept; give {LOWEST_SNR:g} to {HIGHEST_SNR:g} dB")
        return float(wanted)


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
    path: str | os.PathLike[str],
    *,
    model: str | None = None,
    keys: Sequence[Key] | None = None,
    speeds: Speeds = "near",
    progress: Progress | None = None,
) -> Detection:
    """Search the file at `path` for a mark; see `Marker.detect`."""
    return _shared(model).detect_file(path, keys=keys, speeds=speeds, progress=progress)


_shared = cache(load)


def _cut(samples: NDArray[np.floating], length: int) -> Iterator[NDArray[np.floating]]:
    """`(n, channels)` in blocks of `length`."""
    return (samples[start : start + length] for start in range(0, len(samples), length))


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
