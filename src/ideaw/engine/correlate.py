"""Where marks are: a matched filter for the locating code at every hop, and tracks of seconds that follow each other.

A mark repeats its locating code every second, so marked seconds follow each other at FRAMES_PER_SECOND hops, or a
little more or less in audio whose speed was changed. The signs of the code's tiles follow from a key: without a mark of
that key a correlation is a sum of numbers with random signs, whatever the audio is. Its variance is known, and
Hoeffding's inequality bounds the probability of a peak: nothing is calibrated.
"""

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND
from ideaw.engine.significance import POOL_ALL_ABOVE_P
from ideaw.modem.carriers import Carriers
from ideaw.modem.channel import KeyChannels

TILE_CLIP = 2.0
"""Evidence of a tile beyond this is clipped: it is more likely the host's own than a mark's."""

MAX_DRIFT_HOPS = 2
"""Hops by which a second may be longer or shorter than the one before: 3 % of speed."""

TRACK_SCORE_OFFSET = 2.0
"""Standard deviations that a second's score must exceed to add to a track."""

MIN_TRACK_GAIN = 2.5
"""Least sum of scores, each less TRACK_SCORE_OFFSET, that makes a track."""

WEAK_SHARE = 0.35
"""Share of a track's typical score that the seconds at its ends need, or they are trimmed."""

WEIGHT_REACH_ROWS, MIN_ROW_WEIGHT = 12, 0.03
"""Rows of tiles on each side over which a row's worth is measured, 400 Hz, and what every row is worth at least, as a
share of the best (E91)."""

BORDER_ITERATIONS = 3
"""How often the borders of a marked stretch are estimated again."""


@dataclass(frozen=True)
class Track:
    """Marked seconds that follow each other."""

    starts: NDArray[np.int64]
    """The hops that they begin at."""
    scores: NDArray[np.float64]
    """The locating code's correlation in each, in standard deviations."""
    score: float
    """The correlation of the sum of these seconds or, for the pooled track, of all seconds of the chunk."""
    log_p: float
    """Logarithm of a bound on the probability of any such track in a chunk without this mark."""


def remove_local_mean(stream: NDArray[np.float32]) -> NDArray[np.float32]:
    """(…, hops, freq_tiles) of streams less their moving average over a second.

    Stationary energy of the host would bias the correlator. Silence, and hops that are not known, stay 0.
    """
    nonzero = np.asarray(stream.any(-1, keepdims=True))
    mean = _moving_sum(stream) / _moving_sum(nonzero).clip(1)
    return np.asarray((stream - mean) * nonzero, np.float32)


def find_tracks(stream: NDArray[np.float32], channels: KeyChannels) -> list[Track]:
    """(hops, freq_tiles) of the locating code's stream → tracks of a key's locating code, the smallest `log_p` first.

    Seconds may begin before the first hop and end after the last: what is missing there is silence. A mark too faint
    for any track may still show in the sum of all seconds, so that sum is tried where no track is clear.
    """
    carriers, template = channels.code.carriers, channels.code_template
    sums, variances = matched_filter(stream, carriers, channels.code_template_bands)
    scores = _standardise(sums, variances)

    def track(path: NDArray[np.int64], log_trials: float) -> Track:
        starts = path - FRAMES_PER_SECOND + 1
        score = _correlate(_tiles_of_seconds(stream, starts, carriers).sum(0), template)
        return Track(starts, scores[path], score, hoeffding_log_p(score, log_trials))

    gains, tracks = scores - TRACK_SCORE_OFFSET, []
    while (path := _best_path(gains)) is not None:
        path = _strongest_of_merged(path, gains, scores)
        for place in path:
            reach = FRAMES_PER_SECOND - MAX_DRIFT_HOPS
            gains[max(place - reach + 1, 0) : place + reach] = -np.inf
        path = _trim_weak_ends(path, scores)
        tracks.append(track(path, log_path_trials(path, len(scores))))
    if all(candidate.log_p > math.log(POOL_ALL_ABOVE_P) for candidate in tracks):
        pooled = _best_phase(sums, variances)
        strongest = pooled[_strongest_run(scores[pooled])]
        everything = track(pooled, math.log(FRAMES_PER_SECOND))
        tracks.append(replace(everything, starts=strongest - FRAMES_PER_SECOND + 1, scores=scores[strongest]))
    return sorted(tracks, key=lambda candidate: candidate.log_p)


def matched_filter(
    stream: NDArray[np.float32], carriers: Carriers, template: list[NDArray[np.float32]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The correlation of the second that begins at every hop from −FRAMES_PER_SECOND + 1 on, and its variance.

    Args:
        stream: (hops, freq_tiles), without its local mean.
        carriers: whose tiles are correlated.
        template: (time_tiles, freq_tiles) of each band of tiles.
    """
    longest = max(band.frames for band in carriers.bands)
    padded = np.pad(stream, ((FRAMES_PER_SECOND - 1, FRAMES_PER_SECOND + longest), (0, 0)))
    starts = FRAMES_PER_SECOND - 1 + len(stream)
    total, variance = np.zeros(starts), np.zeros(starts)
    for band, signs in zip(carriers.bands, template, strict=True):
        frames = padded[:, band.first : band.last]
        shifted = [frames[shift : len(frames) - longest + shift] for shift in range(band.frames)]
        tiles = np.clip(reduce(np.add, shifted), -TILE_CLIP, TILE_CLIP)
        sums, squares = tiles @ signs.T, np.square(tiles) @ np.square(signs).T
        for time in range(len(signs)):
            rows = slice(time * band.frames, time * band.frames + starts)
            total += sums[rows, time]
            variance += squares[rows, time]
    return total, variance


def row_weights(stream: NDArray[np.float32], channels: KeyChannels, track: Track) -> NDArray[np.float32]:
    """(freq_tiles,): how much each row of tiles is worth, by the locating code: its amplitude there over its power.

    What survives of a mark lies where a codec or noise left it, and the known code tells where that is. Its signs are
    independent of the message's, so that the weights say nothing about these, and all bounds hold.
    """
    carriers, scores = channels.code.carriers, track.scores.clip(0)[:, None, None]
    tiles = np.clip(_tiles_of_seconds(stream, track.starts, carriers), -TILE_CLIP, TILE_CLIP)
    amplitude, power = np.zeros(stream.shape[1]), np.zeros(stream.shape[1])
    parts = zip(carriers.bands, carriers.split_bands(tiles), channels.code_template_bands, strict=True)
    for band, values, signs in parts:
        rows = slice(band.first, band.last)
        amplitude[rows] = (scores * values * signs).sum((0, 1))
        power[rows] = (scores * np.square(values)).sum((0, 1))
    around = np.ones(2 * WEIGHT_REACH_ROWS + 1)
    amplitude, power = (
        np.convolve(np.pad(sums, WEIGHT_REACH_ROWS, "edge"), around, "valid") for sums in (amplitude, power)
    )
    worth = np.divide(amplitude.clip(0), power, out=np.zeros_like(power), where=power > 0)
    return np.asarray(worth / (worth.max() or 1.0) + MIN_ROW_WEIGHT, np.float32)


def slot_llrs(stream: NDArray[np.float32], carriers: Carriers, starts: NDArray[np.int64]) -> NDArray[np.float32]:
    """(hops, freq_tiles) of the message's stream → (seconds, slots) of the seconds that begin at these hops."""
    return carriers.despread(_tiles_of_seconds(stream, starts, carriers))


def find_borders(
    streams: list[tuple[NDArray[np.float32], Carriers, NDArray[np.float32]]], track: Track
) -> tuple[int, int]:
    """First hop of the marked audio around a track, and the one after its last.

    Args:
        streams: (stream, carriers, symbols) of locating code and, where it is known, message: the stream (hops,
            freq_tiles) without its local mean, and the symbols (seconds, slots) in the seconds of the track, 0 where
            they are not known; one row stands for all seconds.
        track: whose first and last second may reach beyond the marked audio.
    """
    hops = len(streams[0][0])
    first, last = int(track.starts[0]), int(track.starts[-1])
    places = np.arange(max(first - FRAMES_PER_SECOND, 0), min(last + 2 * FRAMES_PER_SECOND, hops))
    evidence, energy = (np.sum(kind, 0) for kind in zip(*(_of_hops(*s, track, places) for s in streams), strict=True))
    inside = (places >= first) & (places < last + FRAMES_PER_SECOND)
    begin, end = int(inside.argmax()), len(inside) - int(inside[::-1].argmax())
    # The borders lie in the outer seconds: what is between them was found to be marked as a whole.
    middle = int(np.clip((first + last + FRAMES_PER_SECOND) // 2, 0, hops - 1))  # most of a second may be missing
    at = np.searchsorted(places, (min(first + FRAMES_PER_SECOND, middle), max(last, middle)))
    for _ in range(BORDER_ITERATIONS):
        # A marked hop correlates in proportion to its energy; half of that is the threshold between marked and not.
        expected = energy * (evidence[begin:end].sum() / max(float(energy[begin:end].sum()), 1e-12))
        sums = np.concatenate([[0.0], np.cumsum(evidence - expected / 2)])
        begin, end = int(sums[: at[0] + 1].argmin()), at[1] + 1 + int(sums[at[1] + 1 :].argmax())
    return int(places[begin]), int(places[end - 1]) + 1


def log_path_trials(path: NDArray[np.int64], starts: int) -> float:
    """Logarithm of the reciprocal weight of a path in the union bound: all paths together weigh 1 at most.

    A path has one of `starts` places, one of so many lengths, and either one distance between its seconds all along or
    another one each time.
    """
    steps = np.diff(path)
    choices = 0 if not len(steps) else len(steps) if np.ptp(steps) else 1
    lengths = 1 + starts / FRAMES_PER_SECOND
    return math.log(starts) + math.log(lengths) + choices * math.log(2 * MAX_DRIFT_HOPS + 1)


def hoeffding_log_p(score: float, log_trials: float) -> float:
    """Logarithm of Hoeffding's bound for a sum of random signs, times the trials, times 2 (tracks, pooled sum)."""
    return min(0.0, math.log(2) + log_trials - max(score, 0.0) ** 2 / 2)


def _moving_sum(stream: NDArray[Any]) -> NDArray[np.float64]:
    """(…, hops, freq_tiles): the sum over the second around each hop."""
    half = FRAMES_PER_SECOND // 2
    padding = ((0, 0),) * (stream.ndim - 2) + ((half + 1, half - 1), (0, 0))
    sums = np.cumsum(np.pad(stream, padding), -2, np.float64)
    return np.asarray(sums[..., FRAMES_PER_SECOND:, :] - sums[..., :-FRAMES_PER_SECOND, :])


def _standardise(sums: NDArray[np.float64], variances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums divided by their standard deviations; 0 where the variance is 0."""
    return np.divide(sums, np.sqrt(variances), out=np.zeros(len(sums)), where=variances > 0)


def _best_phase(sums: NDArray[np.float64], variances: NDArray[np.float64]) -> NDArray[np.int64]:
    """Places a second apart, at that phase of the second at which their pooled correlation is highest."""
    length = len(sums) // FRAMES_PER_SECOND * FRAMES_PER_SECOND
    pooled = (values[:length].reshape(-1, FRAMES_PER_SECOND).sum(0) for values in (sums, variances))
    return np.arange(int(_standardise(*pooled).argmax()), len(sums), FRAMES_PER_SECOND)


def _best_path(gains: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Places, a second ± MAX_DRIFT_HOPS apart, with the largest sum of gains (Viterbi); None below MIN_TRACK_GAIN."""
    lead = FRAMES_PER_SECOND + MAX_DRIFT_HOPS
    total = np.concatenate([np.full(lead, -np.inf), gains])
    step_back = np.zeros(len(gains), np.int64)
    stride = FRAMES_PER_SECOND - MAX_DRIFT_HOPS
    drifts = range(-MAX_DRIFT_HOPS, MAX_DRIFT_HOPS + 1)
    for first in range(0, len(gains), stride):
        here = np.arange(first, min(first + stride, len(gains)))
        options = np.stack([total[here + lead - FRAMES_PER_SECOND - drift] for drift in drifts])
        best = options.argmax(0)
        value = options[best, np.arange(len(here))]
        continues = value > 0
        total[here + lead] += np.where(continues, value, 0.0)
        step_back[here] = np.where(continues, FRAMES_PER_SECOND + best - MAX_DRIFT_HOPS, 0)
    place = int(total.argmax()) - lead
    if not total[place + lead] >= MIN_TRACK_GAIN:
        return None
    path = [place]
    while step_back[path[-1]]:
        path.append(path[-1] - int(step_back[path[-1]]))
    return np.array(path[::-1])


def _tiles_of_seconds(
    stream: NDArray[np.float32], starts: NDArray[np.int64], carriers: Carriers
) -> NDArray[np.float32]:
    """(seconds, tiles): the clipped sums over the tiles of the seconds that begin at these hops; outside is silence."""
    before, after = max(-int(starts.min()), 0), max(int(starts.max()) + FRAMES_PER_SECOND - len(stream), 0)
    padded = np.pad(stream, ((before, after), (0, 0))) if before or after else stream
    seconds = np.stack([padded[start : start + FRAMES_PER_SECOND] for start in starts + before])
    return np.clip(carriers.sum_tiles(seconds), -TILE_CLIP, TILE_CLIP)


def _correlate(tiles: NDArray[np.float32], template: NDArray[np.float32]) -> float:
    """The correlation of tiles with a template, in its own standard deviations."""
    products = tiles.astype(np.float64) * template
    deviation = math.sqrt(float(np.square(products).sum()))
    return float(products.sum()) / deviation if deviation else 0.0


def _of_hops(
    stream: NDArray[np.float32],
    carriers: Carriers,
    symbols: NDArray[np.float32],
    track: Track,
    places: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Correlation and energy of each of these hops with the symbols of the second of the track that it lies in."""
    signs = carriers.expand(carriers.template(symbols))
    second = np.searchsorted(track.starts, places, "right").clip(1) - 1
    row = (places - track.starts[second]) % FRAMES_PER_SECOND
    products = stream[places].astype(np.float64) * signs[second % len(symbols), row]
    return products.sum(1), np.square(products).sum(1)


def _strongest_of_merged(
    path: NDArray[np.int64], gains: NDArray[np.float64], scores: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The strongest of several marks that a path goes through, drifting from one to the other.

    Seconds that are hardly marked, and after which the others begin elsewhere in the second, are such a drift. The path
    of the strongest is then found anew, without the others: between `first` and `last`, which close in every time.
    """
    first, last = 0, len(gains)
    while True:
        strong = path[scores[path] >= WEAK_SHARE * np.median(scores[path])]
        seconds = np.rint(np.diff(strong) / FRAMES_PER_SECOND)
        shifted = np.abs(np.diff(strong) - FRAMES_PER_SECOND * seconds) > MAX_DRIFT_HOPS
        jumps = 1 + np.flatnonzero(shifted & (seconds > 1))
        if not len(jumps):
            return path
        parts = np.split(strong, jumps)
        best = max(range(len(parts)), key=lambda number: scores[parts[number]].sum())
        first = parts[best - 1][-1] + 1 if best else first
        last = parts[best + 1][0] if best + 1 < len(parts) else last
        alone = np.full_like(gains, -np.inf)
        alone[first:last] = gains[first:last]
        again = _best_path(alone)
        if again is None:  # too weak by itself
            return path
        path = again


def _trim_weak_ends(path: NDArray[np.int64], scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """A path without the weak seconds at its ends: those below WEAK_SHARE of its typical score."""
    positive = scores[path].clip(0)
    typical = np.square(positive).sum() / positive.sum()  # the mean, each weighted by itself
    strong = np.flatnonzero(scores[path] >= WEAK_SHARE * typical)
    return path[strong[0] : strong[-1] + 1]


def _strongest_run(scores: NDArray[np.float64]) -> slice:
    """The run of consecutive scores whose sum is largest in its own standard deviations."""
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    lengths = np.arange(len(sums)) - np.arange(len(sums))[:, None]
    runs = np.where(lengths > 0, (sums - sums[:, None]) / np.sqrt(lengths.clip(1)), -np.inf)
    first, last = np.unravel_index(runs.argmax(), runs.shape)
    return slice(int(first), int(last))
