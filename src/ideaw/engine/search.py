"""The search for marks in audio that arrives in blocks: chunk after chunk, each analysed once, in bounded memory.

Stage 2 runs backwards over everything; a matched filter on its output locates each key's locating code. Stage 1 runs
only there, and only as far as needed: once a few seconds give a significant message, the others are not read. Every
track is decoded here, once, and its stretches carry the result. Chunks overlap by more than a second, and a track that
goes on from one chunk to the next is joined. Audio may have several channels: their correlations add up.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import SampleBuffer
from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES
from ideaw.audio.spectrum import SPECTRUM_CONTEXT_HOPS
from ideaw.engine.correlate import MAX_DRIFT_HOPS, Track, find_borders, find_tracks, row_weights, slot_llrs
from ideaw.engine.decode import Decoded, contradicts, decode_repeated, decode_seconds
from ideaw.engine.features import READ_CONTEXT_HOPS, ChunkFeatures
from ideaw.engine.network import Network
from ideaw.engine.significance import CANDIDATE_P, EARLY_STOP_P, SPLICE_P
from ideaw.modem.channel import KeyChannels

CHUNK_HOPS = 120 * FRAMES_PER_SECOND
"""Hops of a chunk: enough seconds to add up where a mark is faint."""

READ_STRIDE, READ_ALL_UP_TO_SECONDS = 3, 5
"""In tracks of more than READ_ALL_UP_TO_SECONDS, every READ_STRIDE-th second is read first. Once their message is
significant (EARLY_STOP_P), others are read only beside seconds that contradict it: a splice shorter than the stride may
go unnoticed."""

SCORE_WEIGHT_BIAS = 2.0
"""A second's weight is max(0, its score + this many standard deviations): the bias keeps weak seconds from being
weighted by noise."""

MIN_PART_SECONDS, MAX_PARTS = 2, 8
"""Least number of consecutive contradicting seconds that are decoded by themselves, and most such parts of a track."""

PER_SECOND = ("starts", "scores", "llrs")
"""Fields of a stretch that have a row for each of its seconds."""

KeepEvidence = Callable[[int, NDArray[np.float32]], None]
"""Receives of every chunk its first hop and (hops, freq_tiles) of the locating code's stream: each hop once."""


@dataclass(frozen=True)
class MarkedStretch:
    """Marked seconds that follow each other, and their message."""

    key_index: int
    """Which of the keys."""
    starts: NDArray[np.int64]
    """The hops that the seconds begin at."""
    scores: NDArray[np.float64]
    """The locating code's correlation in each, in standard deviations."""
    log_p: float
    """Logarithm of a bound on the probability of such a track in one chunk without this mark."""
    llrs: NDArray[np.float32]
    """(seconds, slots): weighted soft values of the message; 0 where they were not needed."""
    first: int
    last: int
    """The hop that the marked audio begins at, and the one after its end."""
    decoded: Decoded
    decodings: int
    """How often seconds of this track were decoded: each is a trial."""
    check_bits: float
    """Bits of proof that the message was made with the key; every decoding of the search before is counted as a try."""
    joined: bool = False
    """Whether it was joined from several chunks, so that its seconds were not yet decoded together."""


@dataclass
class Search:
    """Looks for the marks of some keys in 16 kHz audio."""

    network: Network
    keys: Sequence[KeyChannels]
    chunk_hops: int = CHUNK_HOPS
    hop_samples: int = HOP_SAMPLES
    """Samples between frames, which differ from HOP_SAMPLES where audio of another tempo is searched."""
    log_p: float = 0.0
    """The least `log_p` of any track in any chunk."""
    chunks: int = 0
    """How many chunks were searched."""
    stretches: list[MarkedStretch] = field(default_factory=list)
    """The marked stretches so far, in order of their beginnings."""
    keep_evidence: KeepEvidence | None = None
    remembered_seconds: int | None = None
    """Seconds of a stretch that are kept one by one, the last ones (None: all): bounds the memory of an endless one."""
    min_check_bits: int = 0
    """Bits of proof up to which seconds are read, though the message is sure before."""
    decodings: int = 0
    """How often seconds of any track were decoded so far."""
    _audio: SampleBuffer = field(default_factory=SampleBuffer)
    _searched: int = 0
    """The hop up to which everything was searched."""

    @property
    def margin_hops(self) -> int:
        """Hops on each side of a chunk that are analysed as well: a second, and the receptive field there."""
        context = self.network.card.context["locate"]
        return FRAMES_PER_SECOND + 2 * MAX_DRIFT_HOPS + context + READ_CONTEXT_HOPS + SPECTRUM_CONTEXT_HOPS

    @property
    def end_hop(self) -> int:
        """The hop up to which audio has arrived."""
        return self._audio.end // self.hop_samples

    def search_opening(self, hops: int) -> "Search":
        """A search of the first hops alone, none of which may have been dropped; this one goes on as if it were not."""
        opening = Search(self.network, self.keys, hop_samples=self.hop_samples, min_check_bits=self.min_check_bits)
        opening.push(self._audio.get(0, hops * self.hop_samples))
        opening.finish()
        return opening

    def jump_to(self, hop: int) -> None:
        """Go on with audio from a later hop; what lies between is not searched."""
        self._audio, self._searched = SampleBuffer(start=hop * self.hop_samples), hop

    def push(self, audio: NDArray[np.float32]) -> None:
        """Go on with `(n, channels)` samples."""
        self._audio.append(audio)
        while self._audio.end >= (stop := (self._searched + self.chunk_hops + self.margin_hops) * self.hop_samples):
            self._search_chunk(stop, self._searched + self.chunk_hops)
            self._audio.drop_before((self._searched - self.margin_hops) * self.hop_samples)

    def finish(self) -> None:
        """There is no more: search the rest."""
        if self._audio.end > self._searched * self.hop_samples:
            self._search_chunk(self._audio.end, -(-self._audio.end // self.hop_samples))

    def forget(self, matters: Callable[[MarkedStretch], bool]) -> None:
        """Drop the stretches that ended more than `remembered_seconds` ago and do not matter."""
        assert self.remembered_seconds is not None
        recent = self._searched - self.remembered_seconds * FRAMES_PER_SECOND
        self.stretches = [stretch for stretch in self.stretches if stretch.last >= recent or matters(stretch)]

    def _search_chunk(self, stop: int, searched: int) -> None:
        """Search all that is held before sample `stop`; everything up to hop `searched` is then done."""
        hop = self._audio.start // self.hop_samples
        audio = self._audio.get(self._audio.start, stop)
        self.chunks += 1
        first, self._searched = self._searched, searched
        if not audio.any():  # digital silence holds no mark
            return
        features = ChunkFeatures(self.network, audio, self.hop_samples)
        if self.keep_evidence is not None:
            self.keep_evidence(first, features.code[first - hop : searched - hop])
        for key_index, channels in enumerate(self.keys):
            for track in find_tracks(features.code, channels):
                self.log_p = min(self.log_p, track.log_p)
                if track.log_p < math.log(CANDIDATE_P):
                    decoder = _TrackDecoder(features, channels, track, self.min_check_bits, self.decodings)
                    for stretch in decoder.stretches(key_index, hop):
                        self._add(stretch)
                    self.decodings = decoder.tries

    def _add(self, new: MarkedStretch) -> None:
        """Add a stretch, as the continuation of one from an earlier chunk or by itself."""
        for place, known in enumerate(self.stretches):
            if known.key_index == new.key_index and (joined := _join(known, new, self.remembered_seconds)):
                self.stretches[place] = joined
                return
        self.stretches.append(new)
        self.stretches.sort(key=lambda stretch: stretch.first)


class _TrackDecoder:
    """Reads and decodes a track, in parts where marked pieces were spliced so that their seconds follow each other."""

    def __init__(
        self, features: ChunkFeatures, channels: KeyChannels, track: Track, min_check_bits: int, tries: int
    ) -> None:
        self._features, self._channels, self._track = features, channels, track
        self._min_check_bits, self._tries_before = min_check_bits, tries
        self._decodings = 0
        self._llrs = np.zeros((len(track.starts), channels.message.carriers.slots), np.float32)

    @property
    def tries(self) -> int:
        """Decodings of the search up to now."""
        return self._tries_before + self._decodings

    def stretches(self, key_index: int, hop: int) -> Iterator[MarkedStretch]:
        """The stretches of the track, one for each message, in the order of its seconds; positions count from `hop`."""
        decoded = self._read()
        parts = list(self._split(0, len(self._llrs), decoded, 0))
        first, last = self._borders(parts)
        starts, track = self._track.starts, self._track
        for begin, end, part in parts:
            yield MarkedStretch(
                key_index,
                starts[begin:end] + hop,
                track.scores[begin:end],
                track.log_p,
                self._llrs[begin:end],
                hop + (first if begin == 0 else int(starts[begin])),
                hop + (last if end == len(starts) else int(starts[end])),
                part,
                self._decodings,
                proven_bits(part, self.tries),
            )

    def _read(self) -> Decoded:
        """Fill in the soft values of the track's seconds, as far as they are needed, and decode them together."""
        track, channels = self._track, self._channels
        begins, ends = track.starts.copy(), track.starts + FRAMES_PER_SECOND
        begins[0] -= FRAMES_PER_SECOND  # the borders lie somewhere there
        ends[-1] += FRAMES_PER_SECOND
        weights = (track.scores + SCORE_WEIGHT_BIAS).clip(0)[:, None]
        worth = row_weights(self._features.code, channels, track)
        wanted, unread = _read_first(len(begins)), np.ones(len(begins), bool)
        while True:
            self._stream = self._features.message(*zip(begins[wanted], ends[wanted], strict=True))
            llrs = slot_llrs(self._stream * worth, channels.message.carriers, track.starts[wanted])
            self._llrs[wanted] = weights[wanted] * llrs
            unread &= ~wanted
            self._decodings += 1
            decoded = decode_repeated(self._llrs, channels)
            wanted = unread
            if unread.any() and decoded.p_value <= EARLY_STOP_P and decoded.symbols is not None:
                other = contradicts(self._llrs, decoded.symbols, channels, surely=False)
                beside = np.convolve(other, np.ones(3))[1:-1] > 0
                proven = proven_bits(decoded, self.tries) >= self._min_check_bits
                wanted = unread & beside if proven else unread
            if not wanted.any():
                return decode_seconds(self._llrs, channels, decoded)

    def _decode(self, begin: int, end: int) -> Decoded:
        self._decodings += 1
        return decode_seconds(self._llrs[begin:end], self._channels)

    def _split(self, begin: int, end: int, decoded: Decoded, min_seconds: int) -> list[tuple[int, int, Decoded]]:
        """Seconds from `begin` to `end` in parts of one message each: (begin, end, its decoding).

        Consecutive seconds that contradict the message of all, and decode to another one, are a part; where nothing can
        be decoded, the halves are tried.
        """
        seconds = end - begin
        min_seconds = min_seconds or max(MIN_PART_SECONDS, seconds // MAX_PARTS)
        if decoded.symbols is not None:
            parts, at = [], begin
            for first, last, other in self._contradictions(begin, end, decoded):
                parts += [(at, first, decoded.rows(at - begin, first - begin))] * (at < first)
                parts += self._split(first, last, other, min_seconds)
                at = last
            return [*parts, *([(at, end, decoded.rows(at - begin, seconds))] * (at < end))]
        if seconds < 2 * min_seconds or decoded.missing_seconds:
            return [(begin, end, decoded)]
        middle = begin + seconds // 2
        halves = [
            part
            for first, last in ((begin, middle), (middle, end))
            for part in self._split(first, last, self._decode(first, last), min_seconds)
        ]
        # Halves that do not decode may belong to one faint message, so they stay together.
        return _merge(halves) if any(part.message for _, _, part in halves) else [(begin, end, decoded)]

    def _contradictions(self, begin: int, end: int, decoded: Decoded) -> list[tuple[int, int, Decoded]]:
        """Consecutive seconds that carry another message than `decoded`, in order: (begin, end, their decoding)."""
        assert decoded.symbols is not None
        other = contradicts(self._llrs[begin:end], decoded.symbols, self._channels, surely=False)
        other[1:-1] |= other[:-2] & other[2:]
        runs = begin + np.flatnonzero(np.diff(other, prepend=False, append=False)).reshape(-1, 2)
        longest = sorted(runs.tolist(), key=lambda run: run[0] - run[1])[:MAX_PARTS]
        parts = []
        for first, last in sorted(longest):
            if MIN_PART_SECONDS <= last - first < end - begin:
                part = self._decode(first, last)
                # Weak seconds contradict too; only those with a significant other message are another part.
                if part.message not in (None, decoded.message) and part.p_value < SPLICE_P:
                    parts.append((first, last, part))
        return parts

    def _borders(self, parts: list[tuple[int, int, Decoded]]) -> tuple[int, int]:
        """First hop of the marked audio and the one after its last, from locating code and message if known."""
        channels = self._channels
        streams = [(self._features.code, channels.code.carriers, channels.code_symbols[None])]
        if any(part.symbols is not None for _, _, part in parts):
            symbols = np.zeros_like(self._llrs)
            for begin, end, part in parts:
                if part.symbols is not None:
                    agrees = ~contradicts(self._llrs[begin:end], part.symbols, channels)[:, None]
                    symbols[begin:end] = part.symbols * agrees
            streams.append((self._stream, channels.message.carriers, symbols))
        return find_borders(streams, self._track)


def proven_bits(decoded: Decoded, tries: int) -> float:
    """Bits of proof that a message was made with the key, where this was one of so many tries up to now.

    The k-th may succeed with 1 / (k (k + 1)) of what is allowed, so that all together, however many, have all of it.
    """
    return max(0.0, decoded.check_bits - math.log2(tries * (tries + 1)))


def _read_first(seconds: int) -> NDArray[np.bool_]:
    """Which of so many seconds are read before the others: all of a few, else the first, the last, some in between."""
    places = np.arange(seconds)
    stride = READ_STRIDE if seconds > READ_ALL_UP_TO_SECONDS else 1
    return np.asarray((places % stride == 0) | (places == seconds - 1))


def _merge(parts: list[tuple[int, int, Decoded]]) -> list[tuple[int, int, Decoded]]:
    """The parts, with neighbours of the same message merged."""
    merged = parts[:1]
    for begin, end, decoded in parts[1:]:
        first, _, before = merged[-1]
        if decoded.message is not None and decoded.message == before.message:
            assert before.symbols is not None
            assert decoded.symbols is not None
            symbols = np.concatenate([before.symbols, decoded.symbols])
            merged[-1] = first, end, replace(min(before, decoded, key=_p_value), symbols=symbols)
        else:
            merged.append((begin, end, decoded))
    return merged


def _p_value(decoded: Decoded) -> float:
    return decoded.p_value


def _join(known: MarkedStretch, new: MarkedStretch, seconds: int | None) -> MarkedStretch | None:
    """Two stretches as one, if the later continues the seconds of the earlier and their messages agree; else None.

    Args:
        known, new: the earlier and the later one.
        seconds: how many of both are kept (None: all).
    """
    messages = {stretch.decoded.message for stretch in (known, new)} - {None}
    apart = np.abs(new.starts[:, None] - known.starts)
    step = abs(int(new.starts[0] - known.starts[-1]) - FRAMES_PER_SECOND)
    if len(messages) > 1 or (apart.min() > MAX_DRIFT_HOPS and step > MAX_DRIFT_HOPS):
        return None
    # A second in both chunks may be cut off in one of them: it is taken from where it correlates better.
    same, better = apart < FRAMES_PER_SECOND // 2, new.scores[:, None] > known.scores
    unique = ~np.concatenate([(same & better).any(0), (same & ~better).any(1)])
    rows = {name: np.concatenate([getattr(known, name), getattr(new, name)])[unique] for name in PER_SECOND}
    order = np.argsort(rows["starts"])
    sources = np.repeat([0, 1], [len(known.starts), len(new.starts)])[unique][order]
    return replace(
        known,
        log_p=min(known.log_p, new.log_p),
        first=(known, new)[sources[0]].first,
        last=(known, new)[sources[-1]].last,
        decoded=min(known.decoded, new.decoded, key=_p_value),
        decodings=known.decodings + new.decodings,
        check_bits=max(known.check_bits, new.check_bits),
        joined=True,
        **{name: values[order][-(seconds or len(order)) :] for name, values in rows.items()},
    )
