"""Where marks are: the code's evidence in the second after every hop, and the tracks that such seconds make.

A mark repeats its code every second, so its seconds follow each other at FRAMES_PER_SECOND hops, or a little more or less in
audio whose speed was changed. The signs of the code's tiles follow from a key: without a mark of that key the
evidence is a sum of numbers with random signs, whatever the audio is. Its spread is known, and so is a bound on the
chance of a peak (Hoeffding): no calibration is needed.
"""

import math
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND
from ideaw.modem.carriers import Carriers

LOUD = 2.0
"""What a tile says beyond this is cut off: it is more likely the audio's own than a mark's."""

DRIFT = 2
"""Hops by which a second may be longer or shorter than the one before: 3 % of speed."""

EMPTY = 2.0
"""Standard deviations that a second must have to make a track stronger."""

LEAST = 2.5
"""Strength from which on a track is looked at."""

WEAK = 0.35
"""Share of a track's usual score that the seconds at its ends must have."""

UNSURE = 4
"""Hops from an end of the audio within which a border is taken for that end."""

WORTH_READING = 0.05
"""Chance of a code by accident below which the message is read: that says more, and may be clear where no code is."""

CLEAR = 1e-12
"""Chance of a code by accident above which its track may be the clearest part of a faint mark all through the audio."""

ROUNDS = 3
"""How often the borders of a marked stretch are adjusted."""


@dataclass(frozen=True)
class Track:
    """Marked seconds that follow each other."""

    starts: NDArray[np.int64]
    """The hops that they begin at."""
    scores: NDArray[np.float64]
    """The code's evidence in each, in its own standard deviations."""
    score: float
    """The evidence of all together; where all seconds of the audio were asked, of all those."""
    log_p: float
    """Logarithm of at most the chance of this in audio without this mark."""

    @property
    def worth_reading(self) -> bool:
        return self.log_p < math.log(WORTH_READING)


def moving(stream: NDArray[np.float32]) -> NDArray[np.float32]:
    """(hops, ranges) of a stream without what stays the same in the second around each hop: that is the audio's own.

    Silence stays silence, and so do hops that are not known.
    """
    heard = np.asarray(stream.any(-1, keepdims=True))
    return ((stream - _second_around(stream) / _second_around(heard).clip(1)) * heard).astype(np.float32)


def tracks(narrow: NDArray[np.float32], carriers: Carriers, slots: NDArray[np.float32]) -> list[Track]:
    """(hops, ranges) of the code's `moving` stream and the code (slots,) looked for → tracks, the surest first.

    Seconds may begin before the first hop and end after the last: what is missing there is silence. A mark so faint
    that no few seconds tell it may be told by all seconds there are.
    """
    pattern = carriers.template(slots)
    sums, variances = _every_sum(narrow, carriers, pattern)
    scores = _normal(sums, variances)

    def track(path: NDArray[np.int64], log_tried: float) -> Track:
        starts = path - FRAMES_PER_SECOND + 1
        score = _score(np.sum([_tiles(narrow, start, carriers) for start in starts], 0), pattern)
        return Track(starts, scores[path], score, _log_p(score, log_tried))

    gains, found = scores - EMPTY, []
    while (path := _best_path(gains)) is not None:
        path = _without_slides(path, gains, scores)
        for place in path:
            gains[max(place - FRAMES_PER_SECOND + DRIFT + 1, 0) : place + FRAMES_PER_SECOND - DRIFT] = -np.inf
        path = _without_weak_ends(path, scores)
        found.append(track(path, _log_paths(path, len(scores))))
    if all(each.log_p > math.log(CLEAR) for each in found):
        every = _every_second(sums, variances)
        strong = every[_strongest_run(scores[every])]
        found.append(
            replace(
                track(every, math.log(FRAMES_PER_SECOND)), starts=strong - FRAMES_PER_SECOND + 1, scores=scores[strong]
            )
        )
    return sorted(found, key=lambda each: each.log_p)


def span(streams: list[tuple[NDArray[np.float32], Carriers, NDArray[np.float32]]], track: Track) -> tuple[int, int]:
    """First and last hop of the marked audio around a track, found hop by hop.

    `streams` are `moving` streams (hops, ranges) with their carriers and the slots that they are known to carry: those
    of every second of the track, 0 where they are not known, or one row for all.
    """
    hops = len(streams[0][0])
    first, last = int(track.starts[0]), int(track.starts[-1])
    places = np.arange(max(first - FRAMES_PER_SECOND, 0), min(last + 2 * FRAMES_PER_SECOND, hops))
    parts = [_hop_evidence(*stream, track, places) for stream in streams]
    evidence, energy = (np.sum(kind, 0) for kind in zip(*parts, strict=True))
    inside = (places >= first) & (places < last + FRAMES_PER_SECOND)
    begin, end = int(inside.argmax()), len(inside) - int(inside[::-1].argmax())
    # The borders lie in the outer seconds: what is between them was found to be marked as a whole.
    middle = int(
        np.clip((first + last + FRAMES_PER_SECOND) // 2, 0, hops - 1)
    )  # most of a single second may be missing
    at = np.searchsorted(places, (min(first + FRAMES_PER_SECOND, middle), max(last, middle)))
    for _ in range(ROUNDS):
        # A hop of a mark says something in proportion to its energy; half of that is between marked and not.
        expected = energy * (evidence[begin:end].sum() / max(float(energy[begin:end].sum()), 1e-12))
        sums = np.concatenate([[0.0], np.cumsum(evidence - expected / 2)])
        begin, end = int(sums[: at[0] + 1].argmin()), at[1] + 1 + int(sums[at[1] + 1 :].argmax())
    start, stop = int(places[begin]), int(places[end - 1]) + 1
    return 0 if start <= UNSURE else start, hops if stop >= hops - UNSURE else stop


def slot_logits(narrow: NDArray[np.float32], carriers: Carriers, starts: NDArray[np.int64]) -> NDArray[np.float32]:
    """(hops, ranges) of the message's `moving` stream → logits (seconds, slots) of seconds that begin at these hops."""
    return carriers.despread(np.stack([_tiles(narrow, start, carriers) for start in starts]))


def _second_around(stream: NDArray) -> NDArray[np.float64]:
    """The sum over the FRAMES_PER_SECOND hops around each."""
    sums = np.cumsum(np.pad(stream, ((FRAMES_PER_SECOND // 2 + 1, FRAMES_PER_SECOND // 2 - 1), (0, 0))), 0, np.float64)
    return sums[FRAMES_PER_SECOND:] - sums[:-FRAMES_PER_SECOND]


def _every_sum(
    narrow: NDArray[np.float32], carriers: Carriers, pattern: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The evidence in the second that begins at every hop from −FRAMES_PER_SECOND + 1 on, and its variance."""
    longest = max(band.frames for band in carriers.bands)
    padded = np.pad(narrow, ((FRAMES_PER_SECOND - 1, FRAMES_PER_SECOND + longest), (0, 0)))
    starts = FRAMES_PER_SECOND - 1 + len(narrow)
    total, spread = np.zeros(starts), np.zeros(starts)
    for band, signs in zip(carriers.bands, carriers.split_bands(pattern), strict=True):
        frames = padded[:, band.first : band.last]
        shifted = [frames[shift : len(frames) - longest + shift] for shift in range(band.frames)]
        tiles = _limited(reduce(np.add, shifted))
        sums, squares = tiles @ signs.T, np.square(tiles) @ np.square(signs).T
        for time in range(band.time_tiles):
            rows = slice(time * band.frames, time * band.frames + starts)
            total += sums[rows, time]
            spread += squares[rows, time]
    return total, spread


def _normal(sums: NDArray[np.float64], squares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums in their standard deviations."""
    return np.divide(sums, np.sqrt(squares), out=np.zeros(len(sums)), where=squares > 0)


def _every_second(sums: NDArray[np.float64], variances: NDArray[np.float64]) -> NDArray[np.int64]:
    """All places FRAMES_PER_SECOND apart, from that one of the first FRAMES_PER_SECOND on where they say most together."""
    whole = len(sums) // FRAMES_PER_SECOND * FRAMES_PER_SECOND
    together = (each[:whole].reshape(-1, FRAMES_PER_SECOND).sum(0) for each in (sums, variances))
    return np.arange(int(_normal(*together).argmax()), len(sums), FRAMES_PER_SECOND)


def _best_path(gains: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """The places, FRAMES_PER_SECOND ± DRIFT apart, whose gains add up to the most; None where no such sum is worth a look."""
    lead = FRAMES_PER_SECOND + DRIFT
    total = np.concatenate([np.full(lead, -np.inf), gains])
    before = np.zeros(len(gains), np.int64)
    step = FRAMES_PER_SECOND - DRIFT
    for first in range(0, len(gains), step):
        here = np.arange(first, min(first + step, len(gains)))
        options = np.stack([total[here + lead - FRAMES_PER_SECOND - drift] for drift in range(-DRIFT, DRIFT + 1)])
        best = options.argmax(0)
        value = options[best, np.arange(len(here))]
        goes_on = value > 0
        total[here + lead] += np.where(goes_on, value, 0.0)
        before[here] = np.where(goes_on, FRAMES_PER_SECOND + best - DRIFT, 0)
    place = int(total.argmax()) - lead
    if not total[place + lead] >= LEAST:
        return None
    path = [place]
    while before[path[-1]]:
        path.append(path[-1] - int(before[path[-1]]))
    return np.array(path[::-1])


def _limited(tiles: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.clip(tiles, -LOUD, LOUD)


def _tiles(narrow: NDArray[np.float32], start: int, carriers: Carriers) -> NDArray[np.float32]:
    """The sums over the tiles of the second that begins at a hop."""
    inside = narrow[max(start, 0) : max(start + FRAMES_PER_SECOND, 0)]
    if len(inside) < FRAMES_PER_SECOND:
        before = max(-start, 0)
        inside = np.pad(inside, ((before, FRAMES_PER_SECOND - before - len(inside)), (0, 0)))
    return _limited(carriers.sum_tiles(inside))


def _score(tiles: NDArray[np.float32], pattern: NDArray[np.float32]) -> float:
    evidence = tiles.astype(np.float64) * pattern
    spread = math.sqrt(float(np.square(evidence).sum()))
    return float(evidence.sum()) / spread if spread else 0.0


def _hop_evidence(
    narrow: NDArray[np.float32], carriers: Carriers, slots: NDArray[np.float32], track: Track, places: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How much each of these hops says for the slots of the second of the track that it lies in, and its energy."""
    signs = carriers.expand(carriers.template(slots))
    second = np.searchsorted(track.starts, places, "right").clip(1) - 1
    row = (places - track.starts[second]) % FRAMES_PER_SECOND
    said = narrow[places].astype(np.float64) * signs[second % len(slots), row]
    return said.sum(1), np.square(said).sum(1)


def _without_slides(
    path: NDArray[np.int64], gains: NDArray[np.float64], scores: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The strongest of several marks that a path goes through, sliding from one to the other.

    Seconds that are hardly marked, and after which the others begin elsewhere in the second, are such a slide. The
    path of the strongest is then found anew, without the others: between `first` and `last`, which close in every time.
    """
    first, last = 0, len(gains)
    while True:
        strong = path[scores[path] >= WEAK * np.median(scores[path])]
        seconds = np.rint(np.diff(strong) / FRAMES_PER_SECOND)
        jumps = 1 + np.flatnonzero((np.abs(np.diff(strong) - FRAMES_PER_SECOND * seconds) > DRIFT) & (seconds > 1))
        if not len(jumps):
            return path
        parts = np.split(strong, jumps)
        best = max(range(len(parts)), key=lambda number: scores[parts[number]].sum())
        first = parts[best - 1][-1] + 1 if best else first
        last = parts[best + 1][0] if best + 1 < len(parts) else last
        alone = np.full_like(gains, -np.inf)
        alone[first:last] = gains[first:last]
        again = _best_path(alone)
        if again is None:  # not worth a look by itself
            return path
        path = again


def _without_weak_ends(path: NDArray[np.int64], scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """A path without the seconds at its ends that are hardly marked, measured by the others."""
    positive = scores[path].clip(0)
    usual = np.square(positive).sum() / positive.sum()  # the mean, each weighed by itself
    strong = np.flatnonzero(scores[path] >= WEAK * usual)
    return path[strong[0] : strong[-1] + 1]


def _strongest_run(scores: NDArray[np.float64]) -> slice:
    """Those in a row whose sum is the most of its standard deviations."""
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    lengths = np.arange(len(sums)) - np.arange(len(sums))[:, None]
    runs = np.where(lengths > 0, (sums - sums[:, None]) / np.sqrt(lengths.clip(1)), -np.inf)
    first, last = np.unravel_index(runs.argmax(), runs.shape)
    return slice(int(first), int(last))


def _log_paths(path: NDArray[np.int64], starts: int) -> float:
    """Logarithm of how many paths were tried: every place, every number of seconds, and the same distance all along or
    another one each time."""
    steps = np.diff(path)
    bends = 0 if not len(steps) else len(steps) if np.ptp(steps) else 1
    return math.log(starts) + math.log(1 + starts / FRAMES_PER_SECOND) + bends * math.log(2 * DRIFT + 1)


def _log_p(score: float, log_tried: float) -> float:
    """Hoeffding's bound for one sum of random signs, times how many were tried, and two: of few seconds and of all."""
    return min(0.0, math.log(2) + log_tried - max(score, 0.0) ** 2 / 2)
