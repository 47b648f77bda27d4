"""Is there a mark, and what does it say: one loop over hypotheses, one counter of trials, one decision.

Locating code and message have carriers of their own. In audio without the mark of a key the signs of both are
independent, and so are their p-values; Fisher's method combines them.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio.blocks import Progress, Resampler, network_length, resample, with_progress
from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES, SAMPLE_RATE
from ideaw.audio.samples import check_latency, check_stream
from ideaw.engine.decode import decode_seconds
from ideaw.engine.network import Network, single_threaded_blas
from ideaw.engine.search import CHUNK_HOPS, KeepEvidence, MarkedStretch, Search, proven_bits
from ideaw.engine.significance import CANDIDATE_P, FILE_P, file_limit
from ideaw.errors import IdeawError
from ideaw.hypotheses import (
    DEFAULT_SPEEDS,
    ORIGINAL,
    SPEED_RATIO,
    Hypothesis,
    Screening,
    check_speeds,
    count_hypotheses,
    excerpt_for,
)
from ideaw.keys import Key
from ideaw.listening import (
    EVERYTHING,
    FIRST_LOOK_HOPS,
    FIRST_LOOK_SECONDS,
    PROBE_SECONDS,
    Listening,
    cut_excerpts,
    is_look_due,
)
from ideaw.modem.channel import WIRE_FORMAT
from ideaw.results import Detection, Segment

STREAM_ANSWER_SECONDS, MIN_STREAM_ANSWER_SECONDS = 3, 3
"""Latency of the answers in a stream, in seconds: the default, and the least that can be asked for."""

STREAM_MEMORY_SECONDS = 600
"""Seconds of a stream in which pieces of a long message are put together, and within which faint tracks are kept."""

MIN_SPEED_SECONDS = 3
"""Least number of marked seconds whose distances are used to estimate the playback speed."""

MAX_HASH_BITS = 256
"""Everything drawn from a key passes through SHA-256, so a longer key makes an accident no less likely."""

logger = logging.getLogger(__name__)


@dataclass
class TrialCounter:
    """Counts every trial that could have taken unmarked audio for marked; p-values are computed here alone.

    A track's `log_p` bounds the probability of any such track under one hypothesis, with one key, in one chunk: of all
    of these it is that times their number (union bound). A message's p-value bounds one decoding, whatever it says.
    """

    hypotheses: int
    """How many may be searched. Those that are not searched count too, since the same audio decides which are."""
    keys: Sequence[Key]
    chunks: int = 1
    """Chunks of one hypothesis; of a stream also its answers, each of which may be an accident."""
    layers: int = 1
    """Layers of marks that may be searched, each of which may give an accident."""
    look: int = 0
    """Which of several looks under one hypothesis this is, from 1, where the first that finds something ends the
    search; 0 where there is but one. Look k has 1/(k (k + 1)) of the allowed accidents: together they have all."""

    @property
    def searches(self) -> int:
        """Searches for one key in one chunk, over this look's share of the allowed accidents."""
        looks = max(self.look * (self.look + 1), 1)
        return self.hypotheses * len(self.keys) * self.chunks * self.layers * looks

    def track_p(self, log_p: float) -> float:
        """Expected number of accidental tracks as strong as this; a bound on their probability where it is below 1."""
        return self.searches * math.exp(log_p)

    def joint_p(self, stretch: MarkedStretch) -> float:
        """The probability of a stretch by accident: of its track and, where it was decoded, of its message.

        Every track below CANDIDATE_P is decoded, so accidents give up to `searches` · CANDIDATE_P of them.
        """
        track_p = self.track_p(stretch.log_p)
        if stretch.decoded.message is None:
            return min(1.0, track_p)
        message_p = min(1.0, stretch.decodings * stretch.decoded.p_value)
        return fisher_product_p(track_p, message_p, self.searches * CANDIDATE_P)

    def reported_p(self, p: float, key_index: int) -> float:
        """A p-value as it is reported: from 2^−(bits of the key) to 1, since guessing the key is an accident too."""
        return reported_p(p, self.keys[key_index])


class Detector:
    """Finds the marks of some keys.

    Args:
        network: the model, which has a locating code.
        keys: whose marks are looked for, one at least.
        speeds: which other speeds are tried where nothing is found: "none", "near" or "all".
        layers: how many layers of marks are looked for in all, here and elsewhere.
        min_check_bits: bits of proof that a message was made with its key, without which it is not told.

    Raises:
        ModelError: the model has no locating code.
        IdeawError: there are no keys, or `speeds` is not known.
    """

    def __init__(
        self,
        network: Network,
        keys: Sequence[Key],
        speeds: str = DEFAULT_SPEEDS,
        layers: int = 1,
        min_check_bits: int = 0,
    ) -> None:
        network.require_locating_code()
        if not len(keys):
            raise IdeawError("there are no keys to look for; give at least one")
        self._network, self._keys, self._speeds, self._layers = network, keys, check_speeds(speeds), layers
        self._channels = [network.channels(key) for key in keys]
        self._search = partial(Search, network, self._channels, min_check_bits=min_check_bits)

    @single_threaded_blas()
    def detect(
        self,
        open_blocks: Callable[[], Iterable[NDArray[np.floating]]],
        rate: int,
        channels: int,
        length: int | None,
        progress: Progress | None,
        listening: Listening = EVERYTHING,
        keep_evidence: KeepEvidence | None = None,
    ) -> Detection:
        """The answer for audio that can be gone through again and again.

        Args:
            open_blocks: gives the audio from its beginning, in `(n, channels)` blocks of full scale 1.
            rate: sampling rate in Hz.
            channels: number of channels.
            length: samples per channel, if that is known.
            progress: receives the share of the work that is done, 0 to 1.
            listening: how much of the audio is heard.
            keep_evidence: see `Search`; of the mix of what is heard chunk after chunk.
        """
        seconds = None if length is None else length / rate
        if listening is not EVERYTHING:
            listening = listening.suited_to(seconds)
        excerpt = excerpt_for(rate, channels)
        blocks = excerpt.tap(with_progress(open_blocks(), length, progress))
        trials = TrialCounter(count_hypotheses(channels, self._speeds), self._keys, layers=self._layers)
        if seconds is not None and listening.probes:
            best, hint = self._probe(blocks, rate, seconds, trials, listening)
            if hint and best.status != "found":
                best = self._test(Hypothesis(), open_blocks(), rate, trials, EVERYTHING, keep_evidence)
        else:
            best = self._test(Hypothesis(), blocks, rate, trials, listening, keep_evidence)
        # At another tempo single seconds may be found; whether all of them are, only a search at that tempo tells.
        if best.status != "found" or (listening is EVERYTHING and _is_in_pieces(best, seconds)):
            trials.look = 0
            screening = Screening(self._network, self._channels, excerpt.samples, rate, self._speeds)
            for hypothesis in screening.hypotheses(best.status != "found"):
                best = _better(best, self._test(hypothesis, open_blocks(), rate, trials))
                if best.status == "found" and not _is_in_pieces(best, seconds):
                    break
        if progress:
            progress(1.0)
        return best

    def detect_stream(self, blocks: Iterable[ArrayLike], rate: int, latency_seconds: int) -> Iterator[Detection]:
        """Intermediate answers for the mix of `(n, channels)` blocks at `rate` Hz, one per chunk, and the final one.

        However long a stream without a mark goes on, the probability that any answer finds one is below 4 · FILE_P.

        Raises:
            AudioError: a block is no audio, or differs from the first in its channels.
            IdeawError: `latency_seconds`, after which a complete mark is reported at the latest, is too short.
        """
        check_latency(latency_seconds, MIN_STREAM_ANSWER_SECONDS)
        search = self._search(remembered_seconds=STREAM_MEMORY_SECONDS)
        search.chunk_hops = latency_seconds * FRAMES_PER_SECOND - search.margin_hops
        resampler, length, answers = Resampler(rate, SAMPLE_RATE, 1), 0, 0
        trials = TrialCounter(1, self._keys, layers=self._layers)
        for _, block in check_stream(blocks):
            length += len(block)
            with single_threaded_blas():
                search.push(resampler.push(Hypothesis().select(block)))
                answer = None
                if search.chunks > answers:
                    answers = search.chunks
                    # Union bound over an endless stream: a mark in chunk k is tested at the level over k², and the
                    # reciprocals of all squares add up to 1.65.
                    trials.chunks = answers**2
                    answer = _decide(search, trials, length / rate)
                    search.forget(lambda stretch: trials.joint_p(stretch) < FILE_P)
            if answer is not None:
                yield answer
        with single_threaded_blas():
            search.push(resampler.finish(network_length(length, rate)))
            search.finish()
            trials.chunks = max(search.chunks, 1) ** 2
            answer = _decide(search, trials, length / rate)
        yield answer

    def _probe(
        self,
        blocks: Iterable[NDArray[np.floating]],
        rate: int,
        seconds: float,
        trials: TrialCounter,
        listening: Listening,
    ) -> tuple[Detection, bool]:
        """The answer for excerpts of the mix, and whether they hint at a mark."""
        search, starts = self._search(), listening.probe_starts(seconds)
        for number, (start, samples) in enumerate(cut_excerpts(blocks, rate, starts), 1):
            search.jump_to(start * FRAMES_PER_SECOND)
            mixed = Hypothesis().select(samples)
            search.push(resample(mixed, rate, SAMPLE_RATE, network_length(len(mixed), rate)))
            search.finish()
            if listening.until_sure or number == len(starts):
                answer = self._look(search, trials, number * PROBE_SECONDS, seconds)
                if answer.status == "found":
                    break
        hint = search.chunks * len(self._keys) * math.exp(search.log_p) < CANDIDATE_P
        return answer, hint

    def _look(self, search: Search, trials: TrialCounter, heard: float, end: float | None = None) -> Detection:
        """The answer, one of several looks, for the part of the audio that was heard; up to `end` if with gaps."""
        trials.look, trials.chunks = trials.look + 1, max(search.chunks, 1)
        return replace(_decide(search, trials, heard, end=end), heard_seconds=float(heard))

    def _test(
        self,
        hypothesis: Hypothesis,
        blocks: Iterable[NDArray[np.floating]],
        rate: int,
        trials: TrialCounter,
        listening: Listening = EVERYTHING,
        keep_evidence: KeepEvidence | None = None,
    ) -> Detection:
        """The answer for the whole audio under one hypothesis, or for its beginning if that is sure."""
        count = 1 if hypothesis.channels is None else len(hypothesis.channels)
        resampler, length = Resampler(rate / hypothesis.speed, SAMPLE_RATE, count), 0
        chunk_hops = CHUNK_HOPS // count  # in about as much memory as one channel
        search = self._search(chunk_hops, round(HOP_SAMPLES / hypothesis.tempo))
        search.keep_evidence = keep_evidence
        opening_due, chunks_seen = listening.until_sure, 0
        for block in blocks:
            length += len(block)
            search.push(resampler.push(hypothesis.select(block)))
            if opening_due and search.end_hop >= FIRST_LOOK_HOPS:
                opening_due = False
                early = self._look(search.search_opening(FIRST_LOOK_HOPS), trials, FIRST_LOOK_SECONDS)
            elif listening.until_sure and search.chunks > chunks_seen and is_look_due(search.chunks):
                chunks_seen = search.chunks
                early = self._look(search, trials, length / rate)
            else:
                continue
            if early.status == "found":
                return early
        search.push(resampler.finish(round(network_length(length, rate) * hypothesis.speed)))
        search.finish()
        trials.chunks = max(search.chunks, 1)
        trials.look += listening.until_sure or trials.look > 0
        detection = _decide(search, trials, length / rate, hypothesis)
        logger.debug("%s: %s, p = %.1e", hypothesis, detection.status, detection.p_value)
        return detection


def reported_p(p: float, key: Key) -> float:
    """A p-value as it is reported: from 2^−(bits of the key) to 1, since guessing the key is an accident too."""
    return max(min(1.0, p), 2.0 ** -min(8 * len(key), MAX_HASH_BITS))


def fisher_product_p(one: float, other: float, most: float = 1.0) -> float:
    """The probability that the product of two independent p-values is as small as that of these (Fisher).

    `one` may be an expected number of accidents, at most `most`, instead of a p-value: each of them is tried with the
    second test.
    """
    product = one * other
    return min(1.0, product * (1 + math.log(max(most, 1.0) / product))) if product > 0 else 0.0


def _decide(
    search: Search,
    trials: TrialCounter,
    seconds: float,
    hypothesis: Hypothesis = ORIGINAL,
    end: float | None = None,
) -> Detection:
    """The answer for audio of so many seconds, up to `end` if these have gaps, as it was searched."""
    end = seconds if end is None else end
    hop_seconds = search.hop_samples / SAMPLE_RATE / hypothesis.speed
    limit = file_limit(seconds)
    stretches = search.stretches
    # What is less proven than was asked for is as if it could not be read: who asks learns nothing about a forgery.
    readable = [stretch for stretch in (*stretches, *_pool(search)) if _is_told(stretch, search)]
    best = min(readable, key=trials.joint_p, default=None)
    if best is not None and (p := trials.joint_p(best)) < limit:
        sure = [stretch for stretch in stretches if trials.joint_p(stretch) < limit]
        assert best.decoded.message is not None
        return Detection(
            "found",
            best.decoded.message.content,
            trials.reported_p(p, best.key_index),
            _segments(sure, search, end, hop_seconds),
            tuple(map(float, best.decoded.llrs)),
            search.keys[best.key_index].fingerprint,
            _measured_speed(best, hypothesis.speed),
            "fast",
            math.floor(best.check_bits),
            WIRE_FORMAT,
            tempo=_measured_speed(best, hypothesis.tempo),
        )
    present = [stretch for stretch in stretches if trials.track_p(stretch.log_p) < limit]
    p = min(1.0, trials.track_p(search.log_p))
    if not present:
        return Detection("none", None, p, [], ())
    strongest = min(present, key=lambda stretch: stretch.log_p)
    p = trials.reported_p(p, strongest.key_index)
    llrs = tuple(map(float, strongest.decoded.llrs))
    return Detection("unreadable", None, p, _segments(present, search, end, hop_seconds), llrs, layer="fast")


def _is_told(stretch: MarkedStretch, search: Search) -> bool:
    """Whether a stretch has a message, with as much proof as is asked for."""
    return stretch.decoded.message is not None and stretch.check_bits >= search.min_check_bits


def _pool(search: Search) -> Iterator[MarkedStretch]:
    """All stretches of a key decoded together, where none decodes alone: a long message that was cut apart."""
    for key_index, channels in enumerate(search.keys):
        pieces = [stretch for stretch in search.stretches if stretch.key_index == key_index]
        joined = len(pieces) > 1 or any(piece.joined for piece in pieces)
        if joined and all(piece.decoded.message is None for piece in pieces):
            llrs = np.concatenate([piece.llrs for piece in pieces])
            decoded = decode_seconds(llrs, channels)
            strongest = min(pieces, key=lambda piece: piece.log_p)
            proof = proven_bits(decoded, search.decodings + 1)
            count = 1 + sum(piece.decodings for piece in pieces)
            yield replace(strongest, decoded=decoded, decodings=count, check_bits=proof)


def _better(one: Detection, other: Detection) -> Detection:
    """The less likely accident or, of two that were found, the first unless the other has more in one piece."""
    if one.found and other.found:
        return other if _longest_seconds(other) > _longest_seconds(one) + 1 else one
    return min(one, other, key=lambda detection: (not detection.found, detection.p_value))


def _longest_seconds(detection: Detection) -> float:
    return max((segment.end - segment.start for segment in detection.segments), default=0.0)


def _is_in_pieces(detection: Detection, seconds: float | None) -> bool:
    """Whether what was found in so many seconds may be at another tempo: single ones fit, those after them do not."""
    least = MIN_SPEED_SECONDS if seconds is None else min(MIN_SPEED_SECONDS, seconds / 2)
    return len(detection.segments) != 1 or _longest_seconds(detection) < least


def _measured_speed(stretch: MarkedStretch, speed: float) -> float:
    """The speed or tempo of a stretch that was found at the hypothesis `speed`, refined by the spacing of its seconds.

    Starts are rounded to hops (1.6 % of a second): a few seconds cannot refine it, and the hypothesis is right within
    a step of the grid. A mark that is found at speed 1 is reported at speed 1.
    """
    seconds = np.concatenate([[0], np.rint(np.diff(stretch.starts) / FRAMES_PER_SECOND).cumsum()])
    if speed == 1 or len(seconds) < MIN_SPEED_SECONDS:
        return speed
    hops, _ = np.polyfit(seconds, stretch.starts, 1, w=np.maximum(stretch.scores, 0))
    return float(speed * np.clip(FRAMES_PER_SECOND / hops, 1 / SPEED_RATIO, SPEED_RATIO))


def _segments(stretches: list[MarkedStretch], search: Search, end: float, hop_seconds: float) -> list[Segment]:
    """Where the marks are, in seconds of the audio as it was given."""
    return [
        Segment(
            min(stretch.first * hop_seconds, end),
            min(stretch.last * hop_seconds, end),
            float(stretch.scores.mean()),
            _is_told(stretch, search),
            stretch.decoded.message.content if stretch.decoded.message and _is_told(stretch, search) else None,
            search.keys[stretch.key_index].fingerprint,
        )
        for stretch in sorted(stretches, key=lambda stretch: stretch.first)
    ]
