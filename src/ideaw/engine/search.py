"""The search for marks in audio that arrives in blocks: chunk after chunk, each listened to once, in bounded memory.

Audio may have several voices, as the channels of a recording are: each is listened to, and what they say adds up.
Stage 2 runs backwards over everything; its output tells for every key at once where that key's code is. Stage 1 runs
only there, and once a few seconds say beyond doubt what all say, no further. Chunks overlap by more than a second, and
what goes on from one chunk to the next is put together again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES
from ideaw.audio.level import LEVEL_CONTEXT_HOPS, level
from ideaw.audio.stft import stft
from ideaw.engine import scan
from ideaw.engine.decode import contradicts, decode_certain, decode_seconds
from ideaw.engine.network import Network, Rest

CHUNK = 120 * FRAMES_PER_SECOND
"""Hops of a chunk: enough seconds to add up where a mark is faint."""

LISTENED = 10 * FRAMES_PER_SECOND
"""Hops that go through the network at once, at most: longer blocks fall out of the caches."""

BESIDE = 4
"""Hops to either side of those that are read that go through the network with them. The shipped one sees 24, but what
lies farther off changes what it reads less than its rounding does (docs/LOG.md, session 12)."""

MARGIN = LEVEL_CONTEXT_HOPS + 2
"""Hops around some hops that their spectrum depends on: its windows reach out, and its level looks around."""

EVERY, FEW = 3, 5
"""Of more than a few seconds every third is read first. Once these say beyond doubt what all say, the others are read
only beside seconds that may say something else: a piece of other marked audio is noticed if it is no shorter."""

EVEN = 2.0
"""Standard deviations that are added to a second's evidence to give its weight: where there is little, its size says
little about the message beside it."""

PER_SECOND = ("starts", "scores", "values")
"""What a trace has for each of its seconds."""


@dataclass(frozen=True)
class Trace:
    """Marked seconds that follow each other, and what they say."""

    owner: int
    """Which of the keys."""
    starts: NDArray[np.int64]
    """The hops that the seconds begin at."""
    scores: NDArray[np.float64]
    """The code's evidence in each, in standard deviations."""
    log_p: float
    """Logarithm of at most the chance of this code by accident, in one chunk."""
    values: NDArray[np.float32]
    """(seconds, slots): the message's soft values, each second with its weight; 0 where they were not needed."""
    first: int
    last: int
    """The hops that the marked audio begins at and ends before."""


@dataclass
class Search:
    """Looks for the marks of some keys, each given as a network with its carriers, in 16 kHz audio."""

    owners: Sequence[Network]
    codes: Sequence[NDArray[np.integer]]
    """The locating code of each."""
    chunk: int = CHUNK
    log_p: float = 0.0
    """The least `log_p` of any track in any chunk, of which there were `chunks`."""
    chunks: int = 0
    traces: list[Trace] = field(default_factory=list)
    """What was found, in the order of its beginning."""
    _waiting: list[NDArray[np.float32]] = field(default_factory=list)
    _hop: int = 0
    """The hop at which what is waiting begins."""
    _done: int = 0
    """The hop up to which everything was searched."""

    @property
    def margin(self) -> int:
        """Hops on each side of a chunk that are listened to as well: a second, and what the network looks at there."""
        context = self.owners[0].card.context
        return FRAMES_PER_SECOND + 2 * scan.DRIFT + context["locate"] + BESIDE + MARGIN

    def push(self, audio: NDArray[np.float32]) -> None:
        """Go on with `(n, voices)` samples."""
        self._waiting.append(audio)
        needed = (self._done - self._hop + self.chunk + self.margin) * HOP_SAMPLES
        if sum(map(len, self._waiting)) >= needed:
            self._waiting = [np.concatenate(self._waiting)]
            while len(self._waiting[0]) >= needed:
                self._search(self._waiting[0][:needed], self._done + self.chunk)
                begin = max(self._done - self.margin, 0)
                self._waiting = [self._waiting[0][(begin - self._hop) * HOP_SAMPLES :]]
                self._hop = begin
                needed = (self._done - self._hop + self.chunk + self.margin) * HOP_SAMPLES

    def finish(self) -> None:
        """There is no more: search the rest."""
        rest = np.concatenate(self._waiting) if self._waiting else np.empty((0, 1), np.float32)
        if self._hop * HOP_SAMPLES + len(rest) > self._done * HOP_SAMPLES:
            self._search(rest, self._hop - (-len(rest) // HOP_SAMPLES))
        self._waiting = []

    def _search(self, audio: NDArray[np.float32], end: int) -> None:
        """Look through audio that begins at hop `_hop`; everything up to hop `end` is then done."""
        heard = Heard(self.owners[0], audio)
        self.chunks += 1
        for number, slots, track in self.tracks(heard.code):
            self.log_p = min(self.log_p, track.log_p)
            if track.worth_reading:
                mask = self.owners[number].mask(self.codes[number])
                self._add(_traced(heard, number, self.owners[number], slots, mask, track, self._hop))
        self._done = end

    def tracks(self, stream: NDArray[np.float32]) -> Iterator[tuple[int, NDArray[np.float32], scan.Track]]:
        """Which key's code, with the slots that carry it, may be where in (hops, ranges) of what was heard."""
        for number, (owner, code) in enumerate(zip(self.owners, self.codes, strict=True)):
            slots = owner.code.values(code)
            for track in scan.tracks(stream, owner.code.carriers, slots):
                yield number, slots, track

    def _add(self, new: Trace) -> None:
        """Put a trace to the others: as what follows one of an earlier chunk, or by itself."""
        for place, known in enumerate(self.traces):
            if known.owner == new.owner and (joined := _joined(known, new)):
                self.traces[place] = joined
                return
        self.traces.append(new)
        self.traces.sort(key=lambda trace: trace.first)


class Heard:
    """What the network hears in `(n, voices)` of audio: the code's stream everywhere, the message's on demand.

    Threads share the work, unless it is to be done `alone`, where they have such work of their own.
    """

    def __init__(self, network: Network, audio: NDArray[np.float32], alone: bool = False) -> None:
        length, voices = audio.shape
        self._network = network
        self.hops = -(-length // HOP_SAMPLES)
        self.codes = np.empty((voices, self.hops, network.card.bins // network.code.carriers.width), np.float32)
        """(voices, hops, ranges): what each says, as far as it moves."""
        self._sound = np.empty((voices, self.hops), bool)
        parts = [(0, self.hops)] if alone and self.hops else network.parts(0, self.hops, LISTENED)
        listened = [(voice, *part) for voice in range(voices) for part in parts]
        left = network.each(partial(self._listen, audio), listened)
        self._rest = [left[voice * len(parts) : (voice + 1) * len(parts)] for voice in range(voices)]
        self.codes = np.stack([scan.moving(code) for code in self.codes])
        self._messages = np.zeros_like(self.codes)
        self._known = np.zeros(self.hops, bool)

    @cached_property
    def code(self) -> NDArray[np.float32]:
        """(hops, ranges) of the code's stream: what all voices say together."""
        return self.codes.sum(0)

    def message(self, *spans: tuple[int, int]) -> NDArray[np.float32]:
        """(hops, ranges) of the message's stream, as far as it moves, known from one hop to another in these `spans`.

        It is 0 where it was not asked for yet.
        """
        wanted = np.zeros(self.hops, bool)
        for first, last in spans:
            wanted[max(first, 0) : max(last, 0)] = True
        edges = np.flatnonzero(np.diff(wanted & ~self._known, prepend=False, append=False)).reshape(-1, 2)
        parts = [part for first, last in edges.tolist() for part in self._network.parts(first, last, LISTENED)]
        self._network.each(self._read, parts)
        self._known |= wanted
        return np.sum([scan.moving(message) for message in self._messages], 0)

    def _listen(self, audio: NDArray[np.float32], part: tuple[int, int, int]) -> tuple[int, Rest]:
        """Fill in what a voice says from one hop to another; the first of them, and what is left for `_read`."""
        (voice, begin, end), context = part, self._network.card.context["locate"]
        first, last = max(begin - context, 0), min(end + context, self.hops)
        inside = slice(begin - first, end - first)
        spectrum = _even_spectrum(audio[:, voice], first, last)
        code, rest = self._network.locate(spectrum[None])
        self._sound[voice, begin:end] = spectrum[inside].any(-1)
        stream = self._network.code.carriers.sum_bins(code[0, inside])
        self.codes[voice, begin:end] = stream * self._sound[voice, begin:end, None]
        return begin, tuple(kind[0][:, inside] for kind in rest)

    def _read(self, part: tuple[int, int]) -> None:
        """Fill in the message's stream from one hop to another."""
        begin, end = part
        first, last = max(begin - BESIDE, 0), min(end + BESIDE, self.hops)
        for left, sound, message in zip(self._rest, self._sound, self._messages, strict=True):
            stream = self._network.read(_between(left, first, last))[0, begin - first : end - first]
            message[begin:end] = self._network.message.carriers.sum_bins(stream) * sound[begin:end, None]


def _between(left: list[tuple[int, Rest]], first: int, last: int) -> Rest:
    """What `locate` left of a voice, from one hop to another."""
    parts = [
        tuple(kind[:, max(first - begin, 0) : max(last - begin, 0)] for kind in rest)
        for begin, rest in left
        if begin < last and begin + rest[0].shape[1] > first
    ]
    return tuple(np.concatenate(kind, 1)[None] for kind in zip(*parts, strict=True))


def _even_spectrum(audio: NDArray[np.float32], first: int, last: int) -> NDArray[np.complex64]:
    """(n,) audio → (last − first, BINS): its spectrum at these hops, at level 1."""
    begin = max(first - MARGIN, 0)
    around = audio[begin * HOP_SAMPLES : (last + MARGIN) * HOP_SAMPLES]
    whole = np.pad(around, (0, -len(around) % HOP_SAMPLES))
    return stft(whole / level(whole))[first - begin : last - begin]


def _traced(
    heard: Heard,
    number: int,
    owner: Network,
    slots: NDArray[np.float32],
    mask: NDArray[np.float32],
    track: scan.Track,
    hop: int,
) -> Trace:
    """A track with what is read in it; its hops count from hop `hop` on."""
    begins, ends = track.starts.copy(), track.starts + FRAMES_PER_SECOND
    begins[0] -= FRAMES_PER_SECOND  # somewhere there are the borders
    ends[-1] += FRAMES_PER_SECOND
    values = np.zeros((len(begins), owner.card.message_slots), np.float32)
    some, unread = _read_first(len(begins)), np.ones(len(begins), bool)
    while some.any():
        stream = heard.message(*zip(begins[some], ends[some], strict=True))
        logits = scan.slot_logits(stream, owner.message.carriers, track.starts[some])
        values[some] = (track.scores[some] + EVEN).clip(0)[:, None] * logits * mask
        unread &= ~some
        frames = decode_certain(values, owner.message.code, owner.key)
        some = unread.copy()
        if frames is not None:
            some &= np.convolve(contradicts(values, frames, owner.message.code), np.ones(3))[1:-1] > 0
    if frames is None:
        frames = decode_seconds(values, owner.message.code, owner.key).payloads
    known = [(heard.code, owner.code.carriers, slots[None])]
    if frames is not None:
        said = ~contradicts(values, frames, owner.message.code)[:, None]
        known.append((stream, owner.message.carriers, owner.message.values(frames) * mask * said))
    first, last = scan.span(known, track)
    return Trace(number, track.starts + hop, track.scores, track.log_p, values, first + hop, last + hop)


def _read_first(seconds: int) -> NDArray[np.bool_]:
    """Which of so many seconds are read before the others: all of a few, else the first, the last, some in between."""
    places = np.arange(seconds)
    return (places % (EVERY if seconds > FEW else 1) == 0) | (places == seconds - 1)


def _joined(known: Trace, new: Trace) -> Trace | None:
    """Two traces as one, if the later goes on with the seconds of the earlier; else None."""
    apart = np.abs(new.starts[:, None] - known.starts)
    step = abs(int(new.starts[0] - known.starts[-1]) - FRAMES_PER_SECOND)
    if apart.min() > scan.DRIFT and step > scan.DRIFT:
        return None
    # A second that both know was perhaps cut off in one of them: it is taken from where it was heard better.
    same, better = apart < FRAMES_PER_SECOND // 2, new.scores[:, None] > known.scores
    kept = ~np.concatenate([(same & better).any(0), (same & ~better).any(1)])
    kinds = {name: np.concatenate([getattr(known, name), getattr(new, name)])[kept] for name in PER_SECOND}
    order = np.argsort(kinds["starts"])
    sources = np.repeat([0, 1], [len(known.starts), len(new.starts)])[kept][order]
    return replace(
        known,
        log_p=min(known.log_p, new.log_p),
        first=(known, new)[sources[0]].first,
        last=(known, new)[sources[-1]].last,
        **{name: values[order] for name, values in kinds.items()},
    )
