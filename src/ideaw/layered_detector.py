"""Detection in layers: the network's mark first; the deep one where that is not found, or alone where that is asked.

Every layer that may be asked spends its share of the error budget, so p-values count them all.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import floor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio.blocks import Progress, Resampler, network_length, with_progress
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.samples import check_latency, check_stream
from ideaw.deep.search import DeepFinding, DeepSearch, Wanted
from ideaw.detector import MIN_STREAM_ANSWER_SECONDS, Detector, reported_p
from ideaw.engine.network import Network, single_threaded_blas
from ideaw.engine.significance import file_limit
from ideaw.errors import IdeawError, MessageError
from ideaw.hypotheses import DEFAULT_SPEEDS, Speeds, check_speeds
from ideaw.keys import Key
from ideaw.layers import Layer
from ideaw.modem.channel import WIRE_FORMAT
from ideaw.payload.message import Message, MessageLike
from ideaw.results import Detection, Segment, Status

DEFAULT_DEEP_SPEEDS: Speeds = "near"
"""Other speeds that the deep layer tries unless it is told: more of them take most of the time of its search."""


MAX_CHECK_BITS = 48
"""Most bits of proof that can be asked for; a long message has 51, less what was tried before it was read."""


class DeepDetector:
    """Finds the deep marks of some keys.

    Args:
        keys: whose marks are looked for, one at least.
        expected: messages that are looked for by themselves.
        layers: how many layers of marks are looked for in all.
        speeds: "none", "near" or "all": which other speeds are tried where nothing is found.
        min_check_bits: bits of proof that a message was made with its key, without which it is not told.

    Raises:
        IdeawError: there are no keys, or `speeds` is not known.
    """

    def __init__(
        self, keys: Sequence[Key], expected: Sequence[Message], layers: int, speeds: str, min_check_bits: int = 0
    ) -> None:
        if not len(keys):
            raise IdeawError("there are no keys to look for; give at least one")
        self._keys, self._layers, self._speeds = keys, layers, check_speeds(speeds)
        self._wanted, self._min_check_bits = [Wanted(key, expected) for key in keys], min_check_bits

    @single_threaded_blas()
    def detect(self, blocks: Iterable[NDArray[np.floating]], rate: int, channels: int) -> Detection:
        """The answer for `(n, channels)` blocks at `rate` Hz."""
        search = DeepSearch(self._wanted, self._layers, self._speeds, file_limit)
        resampler, length = Resampler(rate, SAMPLE_RATE, channels), 0
        for block in blocks:
            length += len(block)
            search.push(resampler.push(block))
        search.push(resampler.finish(network_length(length, rate)))
        return self.decide(search, search.finish(), length / rate)

    def detect_stream(self, blocks: Iterable[ArrayLike], rate: int, latency_seconds: int) -> Iterator[Detection]:
        """Answers every `latency_seconds`, and the final one.

        Raises:
            AudioError: a block is no audio or differs from the first; or the latency is too short.
        """
        check_latency(latency_seconds, MIN_STREAM_ANSWER_SECONDS)
        listener, answered = self.listen(rate), 0
        for _, block in check_stream(blocks):
            listener.push(block)
            if listener.length - answered >= latency_seconds * rate:
                answered = listener.length
                yield listener.answer()
        listener.finish()
        yield listener.answer()

    def listen(self, rate: int) -> "DeepListener":
        """A search of a stream at `rate` Hz, which is pushed."""
        return DeepListener(self, DeepSearch(self._wanted, self._layers, "none", file_limit), rate)

    def decide(self, search: DeepSearch, finding: DeepFinding, seconds: float) -> Detection:
        """The answer for audio of so many seconds."""
        limit = file_limit(seconds)
        if finding.p_value >= limit:
            return Detection("none", None, finding.p_value, [], ())
        key, proof = self._keys[finding.key_index], search.check_bits(finding)
        message = search.message(finding) if proof >= self._min_check_bits else None
        content = None if message is None else message.content
        span = finding.start, min(finding.end, seconds)
        segment = Segment(*span, finding.decoding.score, content is not None, content, key.fingerprint)
        status: Status = "unreadable" if content is None else "found"
        p = reported_p(finding.p_value, key)
        name = None if content is None else key.fingerprint
        wire_format = None if content is None else WIRE_FORMAT
        check_bits = 0 if content is None else floor(proof)
        played = finding.playback
        speed, tempo = (1.0, played.tempo) if played.keeps_pitch else (played.tempo, 1.0)
        return Detection(status, content, p, [segment], (), name, speed, "deep", check_bits, wire_format, tempo=tempo)


class DeepListener:
    """The search for deep marks in a stream: answers for what was pushed so far, each a trial of its own."""

    def __init__(self, detector: DeepDetector, search: DeepSearch, rate: int) -> None:
        self._detector, self._search, self._rate = detector, search, rate
        self._resampler: Resampler | None = None
        self._final: DeepFinding | None = None
        self.length = 0
        """Samples per channel that were pushed."""

    @single_threaded_blas()
    def push(self, block: NDArray[np.floating]) -> None:
        """Go on with `(n, channels)` samples."""
        self._resampler = self._resampler or Resampler(self._rate, SAMPLE_RATE, block.shape[1])
        self.length += len(block)
        self._search.push(self._resampler.push(block))

    @single_threaded_blas()
    def finish(self) -> None:
        """There is no more."""
        if self._resampler is not None:
            self._search.push(self._resampler.finish(network_length(self.length, self._rate)))
        self._final = self._search.finish()

    @single_threaded_blas()
    def answer(self) -> Detection:
        """The answer so far, or the final one."""
        finding = self._search.answer() if self._final is None else self._final
        return self._detector.decide(self._search, finding, self.length / self._rate)


class LayeredDetector:
    """Finds the marks of some keys in some layers.

    Args:
        network: the model.
        keys: whose marks are looked for, one at least.
        layers: which are looked for: "deep" where "fast" is not found or not readable, or alone.
        speeds: "none", "near" or "all"; None: DEFAULT_SPEEDS, and DEFAULT_DEEP_SPEEDS in the deep layer.
        expected: messages that are looked for by themselves in the deep layer.
        min_check_bits: bits of proof that a message was made with its key, without which it is not told.

    Raises:
        ModelError: the model has no locating code.
        IdeawError: there are no keys, or `speeds` is not known.
    """

    def __init__(
        self,
        network: Network,
        keys: Sequence[Key],
        layers: Sequence[Layer],
        speeds: str | None,
        expected: Sequence[Message],
        min_check_bits: int = 0,
    ) -> None:
        fast, deep = (speeds or default for default in (DEFAULT_SPEEDS, DEFAULT_DEEP_SPEEDS))
        self._fast = Detector(network, keys, fast, len(layers), min_check_bits) if "fast" in layers else None
        self._deep = DeepDetector(keys, expected, len(layers), deep, min_check_bits) if "deep" in layers else None

    def detect(
        self,
        open_blocks: Callable[[], Iterable[NDArray[np.floating]]],
        rate: int,
        channels: int,
        length: int | None,
        progress: Progress | None,
    ) -> Detection:
        """The answer for audio that can be gone through again and again; arguments as `Detector.detect` has them."""
        answers = []
        if self._fast is not None:
            answers.append(self._fast.detect(open_blocks, rate, channels, length, progress))
        if self._deep is not None and not any(answer.found for answer in answers):
            blocks = open_blocks() if answers else with_progress(open_blocks(), length, progress)
            answers.append(self._deep.detect(blocks, rate, channels))
        return most_telling(answers)

    def detect_stream(self, blocks: Iterable[ArrayLike], rate: int, latency_seconds: int) -> Iterator[Detection]:
        """Answers for the mix of blocks at `rate` Hz every few seconds, and the final one.

        Raises:
            IdeawError: as `Detector.detect_stream`.
        """
        if self._fast is None:
            assert self._deep is not None
            yield from self._deep.detect_stream(blocks, rate, latency_seconds)
        elif self._deep is None:
            yield from self._fast.detect_stream(blocks, rate, latency_seconds)
        else:
            listener = self._deep.listen(rate)
            for answer in self._fast.detect_stream(_overheard(blocks, listener), rate, latency_seconds):
                yield answer if answer.found else most_telling([answer, listener.answer()])


def _overheard(blocks: Iterable[ArrayLike], listener: DeepListener) -> Iterator[NDArray[Any]]:
    """The same blocks, which a listener hears too."""
    for array, block in check_stream(blocks):
        listener.push(block)
        yield array
    listener.finish()


def check_expected(messages: Sequence[MessageLike]) -> list[Message]:
    """Messages that are looked for by themselves, checked, each once.

    Raises:
        MessageError: one of them is empty or no message; or a single text is given instead of a list.
    """
    if isinstance(messages, str | bytes):
        raise MessageError("expected messages are a list; give [message] for one")
    checked = list(dict.fromkeys(map(Message.of, messages)))
    if not all(len(message.content) for message in checked):
        raise MessageError("an expected message is empty")
    return checked


def check_proof(min_check_bits: int) -> int:
    """Bits of proof that are asked for, checked.

    Raises:
        IdeawError: they are no whole number from 0 to MAX_CHECK_BITS.
    """
    if type(min_check_bits) is not int or not 0 <= min_check_bits <= MAX_CHECK_BITS:
        raise IdeawError(f"{min_check_bits} bits of proof cannot be asked for; give 0 to {MAX_CHECK_BITS}")
    return min_check_bits


def most_telling(answers: Sequence[Detection]) -> Detection:
    """Of the answers of all layers, one that was found, else one that was not readable, else the most significant."""
    ranks = {"found": 0, "unreadable": 1, "none": 2}
    return min(answers, key=lambda answer: (ranks[answer.status], answer.p_value))
