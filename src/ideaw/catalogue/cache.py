"""Marks of any key located in what the network heard, without listening again; only where one is, its seconds are.

The matched filter of `engine/correlate.py`, on signs, for many keys at once. Seconds of the same phase are added up in
windows, since a mark repeats its locating code every second, and Hoeffding's bound counts every window that there is.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import split_blocks
from ideaw.audio.grid import FRAMES_PER_SECOND
from ideaw.audio.read import open_audio
from ideaw.catalogue.evidence import unpack
from ideaw.catalogue.job import Job
from ideaw.catalogue.manifest import Entry
from ideaw.catalogue.rows import Cost
from ideaw.catalogue.settings import ScanOptions
from ideaw.catalogue.shards import read_heard
from ideaw.catalogue.storage import Storage, local_copy
from ideaw.detector import Detector
from ideaw.engine.network import Network, single_threaded_blas
from ideaw.engine.significance import CANDIDATE_P, file_limit
from ideaw.errors import FileError, IdeawError
from ideaw.keys import Key
from ideaw.modem.carriers import CODE_TILE_FRAMES
from ideaw.results import Detection, Segment

TILE_HOPS = CODE_TILE_FRAMES[0]
"""Hops of a tile of the locating code, at all frequencies."""

SCORE_STRIDE_HOPS = 2
"""Every second hop is tried as the beginning of a second first; its neighbours where that looks promising."""

WINDOW_SECONDS = (8, 32, 128)
"""Lengths of the windows whose seconds are added up; each begins at a multiple of its length, and is cut at the end."""

PROMISING_SCORE = 4.5
"""Standard deviations of a window from which on its neighbours are tried: one in a few hundred files without a mark."""

MAX_PRODUCTS = 1 << 25
"""Correlations of single rows of tiles that are held at once, which bounds memory: 128 MiB."""

NUM_PHASES = FRAMES_PER_SECOND + 1
"""Hops that the seconds of a window may begin at, the one before its first included."""

MAX_PLACES = 3
"""Most places of a file that are listened to, each of another key."""

MARGIN_SECONDS = 3
"""Seconds around a window that are listened to."""


@dataclass(frozen=True)
class Location:
    """Where a key's mark most likely is in a file.

    Attributes:
        key_index: which key.
        score: correlation of the window's seconds together, in standard deviations.
        first, last: the hops that the window begins at and ends before.
        p_value: bound on the probability of any window as strong, for any of the keys, in a file without a mark.
    """

    key_index: int
    score: float
    first: int
    last: int
    p_value: float


class KeyTemplates:
    """The matched filters of many keys.

    Args:
        network: the model.
        keys: whose marks are located.
    """

    def __init__(self, network: Network, keys: Sequence[Key]) -> None:
        templates = [network.channels(key).code_template_bands[0] for key in keys]
        self._signs = np.stack(templates).astype(np.float32)
        """(keys, time_tiles, rows)."""

    def locate(self, signs: NDArray[np.int8]) -> list[Location]:
        """The best place of each key whose mark may be there, the most significant first.

        Args:
            signs: (hops, rows), as `evidence.unpack` gives them.
        """
        seconds = -(-len(signs) // FRAMES_PER_SECOND)
        if not signs.any():
            return []
        length = (seconds + 1) * FRAMES_PER_SECOND  # the last second may begin anywhere within its own
        padded = np.pad(signs, ((0, length + TILE_HOPS - len(signs)), (0, 0)))
        tiles = _tile_sums(padded, length)
        energy = _of_seconds(_energy_of_seconds(tiles[::SCORE_STRIDE_HOPS])[None], seconds)
        trials = len(self._signs) * count_windows(seconds) * NUM_PHASES
        at_once = max(1, MAX_PRODUCTS // (self._signs.shape[1] * len(tiles)))
        places: list[Location] = []
        for first in range(0, len(self._signs), at_once):
            correlations = _correlate(tiles[::SCORE_STRIDE_HOPS], self._signs[first : first + at_once])
            scores = _of_seconds(correlations, seconds)
            for key_index, window, second, phase in _promising(scores, energy):
                places += self._refine(tiles, first + key_index, (window, second, phase), seconds, trials)
        best: dict[int, Location] = {}
        for place in sorted(places, key=lambda place: place.p_value):
            best.setdefault(place.key_index, place)
        return list(best.values())

    def _refine(
        self, tiles: NDArray[np.float32], key_index: int, place: tuple[int, int, int], seconds: int, trials: int
    ) -> Iterator[Location]:
        """The exact score of a window, and of those that begin a hop earlier and later."""
        window, second, phase = place
        last = min(second + window, seconds)
        for hop in (phase - 1, phase, phase + 1):
            starts = np.arange(second, last) * FRAMES_PER_SECOND + hop
            starts = starts[(starts >= 0) & (starts + FRAMES_PER_SECOND - TILE_HOPS < len(tiles))]
            own = tiles[starts[:, None] + np.arange(0, FRAMES_PER_SECOND, TILE_HOPS)].sum(0)
            deviation = math.sqrt(float(np.square(own).sum()))
            score = float((own * self._signs[key_index]).sum()) / deviation if deviation else 0.0
            p_value = min(1.0, trials * math.exp(-(max(score, 0.0) ** 2) / 2))
            yield Location(key_index, score, second * FRAMES_PER_SECOND, last * FRAMES_PER_SECOND, p_value)


def count_windows(seconds: int) -> int:
    """How many windows audio of so many seconds has."""
    return sum(-(-seconds // window) for window in WINDOW_SECONDS)


def _correlate(tiles: NDArray[np.float32], signs: NDArray[np.float32]) -> NDArray[np.float32]:
    """(strides, rows) of tiles and (keys, time_tiles, rows) of signs → (keys, strides): a second's correlation."""
    keys, time_tiles, rows = signs.shape
    products = (signs.reshape(-1, rows) @ tiles.T).reshape(keys, time_tiles, -1)
    step = TILE_HOPS // SCORE_STRIDE_HOPS
    starts = len(tiles) - FRAMES_PER_SECOND // SCORE_STRIDE_HOPS
    total = np.zeros((keys, starts), np.float32)
    for number in range(time_tiles):
        total += products[:, number, number * step : number * step + starts]
    return total


def _tile_sums(signs: NDArray[np.int8], length: int) -> NDArray[np.float32]:
    """(length, rows): at every hop the sum over the tile that begins there."""
    total = np.zeros((length, signs.shape[1]), np.float32)
    for shift in range(TILE_HOPS):
        total += signs[shift : shift + length]
    return total


def _energy_of_seconds(tiles: NDArray[np.float32]) -> NDArray[np.float32]:
    """(strides, rows) of tiles → (strides,): the sum of the squares of the tiles of the second that begins there."""
    step = TILE_HOPS // SCORE_STRIDE_HOPS
    energy = np.square(tiles).sum(1)
    starts = len(tiles) - FRAMES_PER_SECOND // SCORE_STRIDE_HOPS
    parts = (energy[number * step : number * step + starts] for number in range(FRAMES_PER_SECOND // TILE_HOPS))
    return np.asarray(sum(parts), np.float32)


def _of_seconds(values: NDArray[np.float32], seconds: int) -> NDArray[np.float32]:
    """(…, starts) → (…, seconds, phases)."""
    phases = FRAMES_PER_SECOND // SCORE_STRIDE_HOPS
    return values[..., : seconds * phases].reshape(*values.shape[:-1], seconds, phases)


def _promising(scores: NDArray[np.float32], energy: NDArray[np.float32]) -> Iterator[tuple[int, int, int, int]]:
    """The best window of each length of each key: (key, length, first second, phase in hops).

    The energy of the sum over seconds is estimated by that of the seconds, which is near it without a mark.
    """
    for window in WINDOW_SECONDS:
        starts = np.arange(0, scores.shape[1], window)
        sums, energies = (np.add.reduceat(values, starts, 1) for values in (scores, energy))
        ratio = (sums / np.sqrt(energies.clip(1))).reshape(len(scores), -1)
        best = ratio.argmax(1)
        for key_index in np.flatnonzero(ratio[np.arange(len(ratio)), best] >= PROMISING_SCORE).tolist():
            number, phase = divmod(int(best[key_index]), scores.shape[2])
            yield key_index, window, int(starts[number]), phase * SCORE_STRIDE_HOPS


class CacheSearcher:
    """Searches what an earlier scan heard for the marks of some keys.

    Args:
        folder: of the earlier scan.
        network: the model.
        keys: whose marks are looked for.
        options: `longest` holds for files that are listened to.
    """

    def __init__(self, folder: Storage, network: Network, keys: Sequence[Key], options: ScanOptions) -> None:
        self._folder, self._network, self._keys, self._options = folder, network, keys, options
        self._templates = KeyTemplates(network, keys)
        self._shard: tuple[int, dict[int, dict[str, object]]] | None = None

    def search(self, entry: Entry, shard: int) -> tuple[Detection, Cost]:
        """The answer for a file, and what it took.

        Raises:
            IdeawError: it could not be heard in the earlier scan, or not be read again where a mark is.
        """
        began = time.process_time()
        heard = self._heard(entry, shard)
        content, hops, rows, seconds = (heard[name] for name in ("evidence", "hops", "rows", "seconds"))
        assert isinstance(content, bytes) and isinstance(hops, int) and isinstance(rows, int)  # noqa: PT018
        assert isinstance(seconds, float)
        with single_threaded_blas():
            places = self._templates.locate(unpack(content, hops, rows))
        limit = file_limit(seconds)
        p = min((place.p_value for place in places), default=1.0)
        best, listened = Detection("none", None, p, [], ()), 0.0
        for place in [place for place in places if place.p_value < CANDIDATE_P][:MAX_PLACES]:
            detection, more = self._listen(entry, place, limit, seconds)
            listened += more
            if best.status == "none" or detection.status == "found":
                best = detection
            if best.status == "found":
                break
        return best, Cost(seconds, listened, "cache", time.process_time() - began)

    def _heard(self, entry: Entry, shard: int) -> dict[str, object]:
        if self._shard is None or self._shard[0] != shard:
            self._shard = shard, {row["index"]: row for row in read_heard(self._folder, shard).to_pylist()}
        row = self._shard[1].get(entry.index)
        if row is None or row["evidence"] is None:
            raise FileError(f"{entry.path} was not heard in the earlier scan")
        return row

    def _listen(self, entry: Entry, place: Location, limit: float, seconds: float) -> tuple[Detection, float]:
        """What a place holds, and the seconds that were listened to; "unreadable" if its location alone is sure."""
        key = self._keys[place.key_index]
        with local_copy(entry.path, entry.size) as path:
            begin = max(place.first / FRAMES_PER_SECOND - MARGIN_SECONDS, 0.0)
            end = place.last / FRAMES_PER_SECOND + MARGIN_SECONDS
            samples, rate = _read_between(path, begin, end)
        blocks = partial(split_blocks, samples, 5 * rate)
        found = Detector(self._network, [key], "none").detect(blocks, rate, samples.shape[1], len(samples), None)
        segments = [replace(one, start=one.start + begin, end=one.end + begin) for one in found.segments]
        listened = len(samples) / rate
        # Where to listen was chosen among all keys and windows by the same audio, so all of them count.
        p_value = min(1.0, found.p_value * len(self._keys) * count_windows(math.ceil(seconds)))
        if found.status == "found" and p_value < limit:
            return replace(found, p_value=p_value, segments=segments), listened
        if place.p_value >= limit:
            return Detection("none", None, place.p_value, [], ()), listened
        whole = [Segment(begin, end, place.score, False, None, key.fingerprint)]
        return Detection("unreadable", None, place.p_value, segments or whole, ()), listened


def _read_between(path: Path, begin: float, end: float) -> tuple[NDArray[np.float64], int]:
    """The samples `(n, channels)` of a file from `begin` to `end` in seconds, and their rate."""
    with open_audio(path) as recording:
        rate, position, kept = recording.rate, 0, []
        first, last = round(begin * rate), round(end * rate)
        for block in recording.checked_blocks():
            kept.append(block[max(first - position, 0) : max(last - position, 0)])
            position += len(block)
            if position >= last:
                break
    return np.concatenate(kept), rate


def check_cache(earlier: Job, job: Job, folder: Storage) -> None:
    """Raise `IdeawError` unless an earlier scan kept what the same network heard."""
    if not (isinstance(earlier.options, ScanOptions) and earlier.options.cache):
        raise IdeawError(f"{folder.url} has no cache; scan with --cache first")
    if earlier.weights != job.weights:
        raise IdeawError(f"the cache of {folder.url} is of other weights: {earlier.weights}, not {job.weights}")
