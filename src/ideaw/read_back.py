"""Reads a marked file back before it is handed over: a mark that is not found again is an error, and no output.

Of a long file a stretch at its beginning, one in its middle and one at its end are searched, which takes a fraction of
the time of marking; if these do not hold it, all of the file is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import mix, regroup
from ideaw.audio.formats import Encoding
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.read import open_audio, read_blocks
from ideaw.engine.gain import energy
from ideaw.errors import LostMarkError
from ideaw.layered_detector import LayeredDetector
from ideaw.layered_embedder import EmbedRequest
from ideaw.results import Detection

READ_BACK_P = 1e-9
"""p-value that a mark must reach to be handed over: a thousandth of what `detect` is content with, since audio changes
on its way."""

NUM_STRETCHES, MAX_STRETCH_SECONDS = 3, 4
"""Stretches of a file that are searched, and the most seconds of each, unless a message needs more."""

READ_BACK_SHARE = 1 / 4
"""Share of the audio that is searched where it is neither so short that this were no second, nor so long that less
will do: to find a second's message takes about as long as to mark that second."""

SNR_TOLERANCE_DB = 0.05
"""dB by which an SNR may be missed for the sake of rounding."""

NOISE_FLATNESS = 0.5
"""Spectral flatness, geometric over arithmetic mean of the power, above which audio is called noise; of white noise it
is near 1, of music and speech below 0.1."""

FLATNESS_SAMPLES = 2048
"""Samples of a frame by which flatness is measured."""

READ_PERIODS = 2
"""Times that audio should be as long as a message needs at least, before its length is named as the likely reason."""

SHORT_FILE_SECONDS, TOO_QUIET_DBFS, LOW_KBPS_PER_CHANNEL = 3, -50, 40
"""Audio that is shorter or quieter, or coded with less, has that named as the likely reason."""


@dataclass(frozen=True)
class ReadBack:
    """What is to be found in a marked file: the message in the first of its layers.

    Attributes:
        request: what was written.
    """

    request: EmbedRequest

    def check(self, written: Path, target: Path, source: Path, track: int, length: int) -> None:
        """Find the message in a file, and the SNR if one was asked for.

        Args:
            written: the file.
            target: how it is to be called in errors.
            source: what was marked.
            track: which of its sounds, counted from 0.
            length: samples per channel that were marked.

        Raises:
            LostMarkError: the message is not found with a margin, or the mark is louder than was asked for.
            FileError: what was written cannot be read.
        """
        with open_audio(written, track) as opened:
            rate, channels, encoding = opened.rate, opened.channels, opened.encoding
        spans = self._spans(rate, length)
        request, layer = self.request, self.request.layers[0]
        detector = LayeredDetector(request.network, [request.key], [layer], "none", [request.message])
        found = Detection("none", None, 1.0, [], ())
        if spans:
            found = detector.detect(
                partial(_read_spans, written, track, spans), rate, channels, sum(count for _, count in spans), None
            )
        if not self._is_sure(found):
            found = detector.detect(partial(read_blocks, written, None, track), rate, channels, length, None)
        if not self._is_sure(found):
            samples = np.concatenate(list(_read_spans(written, track, spans or [(0, length)])))
            raise LostMarkError(f"{target}: {self._finding(found)}: {self._reason(samples, rate, encoding)}")
        if self.request.level[0] is not None and "deep" not in self.request.layers:  # which keeps none
            self._check_snr(written, target, source, track, spans or [(0, length)])

    def _spans(self, rate: int, length: int) -> list[tuple[int, int]]:
        """Start and length, in samples, of the stretches of a long file that are searched; none of a short one."""
        if "fast" not in self.request.layers:  # periods of a deep mark go on from stretch to stretch
            return []
        needed = self.request.plan.needed
        share = int(length / rate * READ_BACK_SHARE / NUM_STRETCHES)
        least = 1 if needed == 1 else 2 * needed + 1
        count = max(least, min(share, MAX_STRETCH_SECONDS)) * rate
        if length <= NUM_STRETCHES * count:
            return []
        last = (length - count) // rate  # whole seconds, of which each keeps an SNR
        return [(last * number // (NUM_STRETCHES - 1) * rate, count) for number in range(NUM_STRETCHES)]

    def _is_sure(self, found: Detection) -> bool:
        return found.message == self.request.message.content and found.p_value <= READ_BACK_P

    def _finding(self, found: Detection) -> str:
        if found.found and found.message != self.request.message.content:
            return "another mark than this one is read back from what was written"
        return "the mark cannot be read back from what was written" + (" with certainty" if found.found else "")

    def _reason(self, samples: NDArray[np.float64], rate: int, encoding: Encoding) -> str:
        """What probably hid the mark, and what would help."""
        snr, audibility = self.request.level
        needed = self.request.plan.needed if "fast" in self.request.layers else 1
        seconds = len(samples) / rate
        if needed > 1 and seconds < READ_PERIODS * needed:
            return f"the message fills {needed} of {seconds:.0f} s; use a shorter message, or longer audio"
        if snr is not None and snr > self.request.network.card.snr:
            return f"it is too faint at {snr:g} dB SNR; ask for less, or for a level by hearing"
        if audibility is not None and audibility < self.request.network.card.audibility:
            return f"it is too faint at {audibility:g} dB noise to mask; ask for more"
        power = max(float(np.square(samples).mean()), float(np.finfo(float).tiny))
        if 10 * np.log10(power) < TOO_QUIET_DBFS:
            return "the audio is too quiet; make it louder"
        if _flatness(mix(samples), rate) > NOISE_FLATNESS:
            return "the audio is too much like noise, which hides a mark from its reader too; ask for a lower SNR"
        if encoding.bitrate is not None and encoding.bitrate < LOW_KBPS_PER_CHANNEL * samples.shape[1]:
            return f"too little is left at {encoding.bitrate} kbit/s; use a higher bitrate, or a lossless format"
        if seconds < SHORT_FILE_SECONDS:
            return "the audio is too short; use a longer piece"
        return "ask for a stronger mark: a lower SNR, or more audibility"

    def _check_snr(self, written: Path, target: Path, source: Path, track: int, spans: list[tuple[int, int]]) -> None:
        """Compare what was written with its source, where neither is coded with loss."""
        snr, _ = self.request.level
        with open_audio(source, track) as before, open_audio(written, track) as after:
            if snr is None or before.encoding.bitrate is not None or after.encoding.bitrate is not None:
                return
            seconds = (regroup(opened.stretches(spans), before.rate) for opened in (before, after))
            for original, marked in zip(*seconds, strict=True):
                noise, host = energy(marked - original), energy(original)
                if (noise > host * 10 ** (-(snr - SNR_TOLERANCE_DB) / 10)).any():
                    raise LostMarkError(f"{target}: these samples cannot keep {snr:g} dB SNR; use wider ones")


def _read_spans(path: Path, track: int, spans: list[tuple[int, int]]) -> Iterator[NDArray[np.float64]]:
    """Stretches of a file, one after the other."""
    with open_audio(path, track) as opened:
        yield from opened.stretches(spans)


def _flatness(samples: NDArray[np.floating], rate: int) -> float:
    """Spectral flatness of `(n,)` samples below 8 kHz: geometric over arithmetic mean of their mean power spectrum."""
    frames = samples[: len(samples) // FLATNESS_SAMPLES * FLATNESS_SAMPLES].reshape(-1, FLATNESS_SAMPLES)
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(FLATNESS_SAMPLES)))).mean(0)
    inside = power[1 : max(2, min(len(power), FLATNESS_SAMPLES * SAMPLE_RATE // 2 // rate))]
    return float(np.exp(np.log(np.maximum(inside, np.finfo(float).tiny)).mean()) / max(inside.mean(), 1e-300))
