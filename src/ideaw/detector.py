"""From the traces of a search to an answer: which messages are there, where, and how sure that is.

Code and message have carriers of their own. In audio without the mark of a key their signs are independent, so the
chances of both by accident multiply; `combined` is what their product is worth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES, SAMPLE_RATE
from ideaw.engine.decode import Decoded, contradicts, decode_seconds
from ideaw.engine.network import Network
from ideaw.engine.scan import WORTH_READING
from ideaw.engine.search import PER_SECOND, Search, Trace
from ideaw.keys import Key
from ideaw.results import Detection, Segment

SURE = 1e-6
"""The chance of an accident below which a mark counts as found: one in a million files …"""

HOURS = 10_000
"""… and one in so many hours, where that is stricter: of files shorter than 36 seconds."""

LIKELY = 1e-3
"""The same chance for further traces of a key of which a mark was found."""

STEADY = 3
"""Seconds from which on their distances tell how fast audio was played."""

LEAST_PART, MOST_PARTS = 2, 8
"""Seconds in a row that say something else before they are read by themselves, and how many such parts are tried."""


@dataclass(frozen=True)
class Found:
    """A trace, how many such codes accidents give on average, and what it says."""

    trace: Trace
    chance: float
    most: float
    """How many accidents give of any trace that is read."""
    reading: Decoded
    parts: int = 1
    """How many there are of it."""

    @property
    def p_value(self) -> float:
        """The chance of all this by accident; a trace of n parts was read less than 2 · n times."""
        if self.reading.message is None:
            return min(1.0, self.chance)
        return combined(self.chance, min(1.0, 2 * self.parts * self.reading.p_value), self.most)


def decide(search: Search, keys: Sequence[Key], seconds: float, looks: int = 1, pace: float = 1.0) -> Detection:
    """The answer for audio of so many seconds, in which `looks` searches are made, this one at speed `pace`."""
    tried = looks * len(keys) * max(search.chunks, 1)
    limit = min(SURE, seconds / 3600 / HOURS)
    least = min(1.0, tried * math.exp(search.log_p))
    found: list[Found] = []
    for trace in search.traces:
        parts = _messages(trace, search.owners[trace.owner])
        chance, most = tried * math.exp(trace.log_p), tried * WORTH_READING
        found.extend(Found(part, chance, most, reading, len(parts)) for part, reading in parts)
    together = _together(found, search.owners)
    readable = sorted((each for each in (*found, *together) if each.reading.message), key=lambda each: each.p_value)
    best = readable[0] if readable and readable[0].p_value < limit else None
    if best is None:
        there = [each for each in found if each.chance < limit]
        logits = min(there, key=lambda each: each.chance).reading.llrs if there else ()
        return Detection(False, None, least, _segments(there, keys, seconds, pace), tuple(map(float, logits)), None)
    # What else there is of the same key need not be as sure.
    sure = [each for each in found if each.p_value < (LIKELY if each.trace.owner == best.trace.owner else limit)]
    assert best.reading.message is not None
    return Detection(
        True,
        best.reading.message.content,
        best.p_value,
        _segments(sure, keys, seconds, pace),
        tuple(map(float, best.reading.llrs)),
        keys[best.trace.owner],
        _speed(best.trace, pace),
    )


def _speed(trace: Trace, pace: float) -> float:
    """How fast audio was played in which a trace was found at `pace`: its seconds tell what the pace leaves over.

    Few seconds cannot tell: each begins at a whole hop, 1.6 % of it. Nor is audio that was found as it is called faster
    or slower than it was meant to be.
    """
    seconds = np.concatenate([[0], np.rint(np.diff(trace.starts) / FRAMES_PER_SECOND).cumsum()])
    if pace == 1 or len(seconds) < STEADY:
        return pace
    hops, _ = np.polyfit(seconds, trace.starts, 1, w=np.maximum(trace.scores, 0))
    return float(pace * FRAMES_PER_SECOND / hops)


def combined(one: float, other: float, most: float = 1.0) -> float:
    """The chance that the product of two independent p-values is as small as that of these (Fisher).

    The first may be a number of accidents, up to `most`, that are as good: each of them is tried with the second.
    """
    product = one * other
    return min(1.0, product * (1 + math.log(max(most, 1.0) / product))) if product > 0 else 0.0


def _messages(trace: Trace, owner: Network, least: int = 0) -> list[tuple[Trace, Decoded]]:
    """What a trace says; in parts where marked pieces were put together so that their seconds follow each other."""
    reading = decode_seconds(trace.values, owner.message.code, owner.key)
    seconds = len(trace.starts)
    least = least or max(LEAST_PART, seconds // MOST_PARTS)
    if reading.payloads is not None:
        runs = _others(trace, owner, reading)
        cuts = sorted({edge for run in runs for edge in run} - {0, seconds})
    else:
        cuts = [seconds // 2] if seconds >= 2 * least and not reading.missing_seconds else []
    if not cuts:
        return [(trace, reading)]
    parts = _merged([found for part in _cut(trace, cuts) for found in _messages(part, owner, least)])
    # Parts that say nothing by themselves may be what one message has left of itself.
    return parts if any(said.message for _, said in parts) else [(trace, reading)]


def _others(trace: Trace, owner: Network, reading: Decoded) -> list[tuple[int, int]]:
    """Seconds in a row, from the first to before the last, that say something else than the whole trace."""
    assert reading.payloads is not None
    other = contradicts(trace.values, reading.payloads, owner.message.code)
    other[1:-1] |= other[:-2] & other[2:]
    edges = np.flatnonzero(np.diff(other, prepend=False, append=False)).reshape(-1, 2)
    longest = sorted(edges.tolist(), key=lambda run: run[0] - run[1])[:MOST_PARTS]
    runs = []
    for begin, end in longest:
        if end - begin >= LEAST_PART:
            said = decode_seconds(trace.values[begin:end], owner.message.code, owner.key)
            # Weak seconds disagree too; only those that surely say something else are another piece.
            if said.message not in (None, reading.message) and said.p_value < SURE:
                runs.append((begin, end))
    return runs


def _merged(parts: list[tuple[Trace, Decoded]]) -> list[tuple[Trace, Decoded]]:
    """The parts, with those as one that follow each other and say the same."""
    out = parts[:1]
    for trace, said in parts[1:]:
        before, said_before = out[-1]
        if said.message is not None and said.message == said_before.message:
            whole: dict[str, Any] = {
                name: np.concatenate([getattr(before, name), getattr(trace, name)]) for name in PER_SECOND
            }
            surest = min(said_before, said, key=lambda each: each.p_value)
            out[-1] = replace(before, last=trace.last, **whole), surest
        else:
            out.append((trace, said))
    return out


def _cut(trace: Trace, cuts: list[int]) -> list[Trace]:
    """The trace as several, cut before these seconds."""
    edges = [0, *cuts, len(trace.starts)]
    parts = []
    for begin, end in pairwise(edges):
        first = trace.first if begin == 0 else int(trace.starts[begin])
        last = trace.last if end == len(trace.starts) else int(trace.starts[end])
        kept = {name: getattr(trace, name)[begin:end] for name in PER_SECOND}
        parts.append(replace(trace, first=first, last=last, **kept))
    return parts


def _together(found: list[Found], owners: Sequence[Network]) -> list[Found]:
    """What all traces of a key say together, where none of them says it alone: a long message in pieces."""
    out = []
    for number, owner in enumerate(owners):
        mine = [each for each in found if each.trace.owner == number]
        if len(mine) > 1 and not any(each.reading.message for each in mine):
            values = np.concatenate([each.trace.values for each in mine])
            surest = min(mine, key=lambda each: each.chance)
            out.append(replace(surest, reading=decode_seconds(values, owner.message.code, owner.key), parts=len(mine)))
    return out


def _segments(found: list[Found], keys: Sequence[Key], seconds: float, pace: float) -> list[Segment]:
    """Where the marks are, in seconds of the audio as it was given."""
    second = HOP_SAMPLES / SAMPLE_RATE / pace
    return [
        Segment(
            min(each.trace.first * second, seconds),
            min(each.trace.last * second, seconds),
            float(each.trace.scores.mean()),
            each.reading.message is not None,
            None if each.reading.message is None else each.reading.message.content,
            keys[each.trace.owner],
        )
        for each in sorted(found, key=lambda each: each.trace.first)
    ]
