"""How long a message survives in a recording: measured on the recording itself, marked, coded and searched again.

A search weighs soft values of every second. Against the symbols that were written these tell how much energy the mark
has over the noise that reading adds to it, and how much a message needs is a property of its code (E107). Long
recordings are measured in stretches, and their energy taken for that of all.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, log
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ideaw.audio.blocks import Progress, network_length, resample
from ideaw.audio.formats import FORMATS, MP3_RATES, Encoding, PathLike
from ideaw.audio.grid import FRAMES_PER_SECOND, SAMPLE_RATE
from ideaw.audio.read import open_audio, read_audio
from ideaw.audio.write import write_audio
from ideaw.engine.network import Network
from ideaw.engine.plan import plan_message
from ideaw.engine.search import Search
from ideaw.errors import AudioError, FileError
from ideaw.hypotheses import Hypothesis, Screening, excerpt_for
from ideaw.keys import PUBLIC
from ideaw.listening import PROBE_SECONDS, Listening
from ideaw.marker import Marker
from ideaw.modem.long_frames import CHECK_ZEROS, ODD_BITS
from ideaw.payload.body import capacity
from ideaw.payload.message import Message, layout

MEASURED_KBPS = (128, 64)
"""Bitrates in kbit/s of the copies that are measured besides what is written."""

NUM_MEASURED_STRETCHES = 4
"""Stretches of PROBE_SECONDS that are measured of a longer recording."""

MAX_MEASURED_BYTES = 24
"""Bytes of the message that is measured, at most: its energy does not depend on them."""

READ_SHARE = 0.95
"""Share of messages that are read at the energies below."""

SHORT_ENERGIES = {10: 49.0, 22: 62.0, 46: 119.0}
"""Message bits of a model → energy over the variance of the noise, of all slots together, that a message in every
second needs (E107)."""

LONG_BIT_ENERGY, LONG_BIT_ENERGY_PER_FOLD, TYPICAL_BITS = 2.6, 0.2, 160
"""Energy for each of TYPICAL_BITS bits of a longer message, with all that is sent with it, and how much more for
each of e times as many: more bits, more ways to fail."""

FRAMING_ENERGY, FRAMING_ENERGY_PER_SECOND = 285.0, 4.4
"""Energy that its length and phase need to be told, and how much more for each second: more seconds, more ways to be
mistaken."""

ENERGY_NORM = 6
"""Both needs together are the norm of this order of the two: next to each other, each is a chance to fail."""

Samples: TypeAlias = tuple[NDArray[np.floating], int]
"""`(n, channels)` of full scale 1, and their rate in Hz."""

Agreement: TypeAlias = NDArray[np.float32]
"""Soft values times the symbols that were written, of all slots that were read: positive where a slot is right."""

NUM_TILTS, MAX_TILT_RATIO = 41, 8.0
"""Exponents that are tried for Chernoff's bound, and the ratio of the largest to that of Gaussian values."""


@dataclass(frozen=True)
class Survival:
    """What is read from a copy of a recording.

    Attributes:
        copy: what became of it: "untouched", "MP3 128 kbit/s" …
        bytes: of the longest message that would be read with a probability of READ_SHARE in white noise of this
            energy; 0 if none would be.
        short_bytes: of a message that every second repeats.
        short_seconds: seconds of it that such a message needs on the average; None if all of it is too little.
    """

    copy: str
    bytes: int
    short_bytes: int
    short_seconds: int | None


@dataclass(frozen=True)
class Survivals:
    """What is read from copies of a recording; and how many of its seconds were measured."""

    copies: tuple[Survival, ...]
    measured_seconds: float


def measure_survival(
    network: Network,
    path: PathLike,
    num_samples: int,
    kbps: Sequence[int] = MEASURED_KBPS,
    progress: Progress | None = None,
) -> Survivals:
    """Mark a file in a temporary folder at the usual level, and measure what is left after it was written and coded.

    The public key is taken; others are like it.

    Args:
        network: the model.
        path: the file.
        num_samples: its length per channel.
        kbps: bitrates of the copies in MP3 in kbit/s, as far as its rate knows them.
        progress: receives the share of the work that is done, 0 to 1.

    Raises:
        FileError: it cannot be read, or a copy cannot be written.
        AudioError: none of it can be marked.
    """
    with open_audio(path) as source:
        rate, encoding = source.rate, replace(source.encoding, tags={}, id3=b"")
        spans = _spans(num_samples, rate)
        stretches = [np.concatenate(list(source.stretches([span]))) for span in spans]
    agreements: dict[str, list[dict[str, Agreement]]] = {}
    marker, unmarked = Marker(network), list[AudioError]()
    for number, samples in enumerate(stretches):
        with tempfile.TemporaryDirectory() as folder:
            message = _message(network, len(samples) / rate)
            try:
                marked = marker.embed(samples, rate, message.content)
            except AudioError as problem:  # a silent stretch holds nothing, and others may hold enough
                unmarked.append(problem)
                continue
            own = Path(folder, "own" + Path(path).suffix.lower())
            for name, copy in copies((marked, rate), own, encoding, kbps):
                agreements.setdefault(name, []).append(_agreements(network, copy, message))
        if progress is not None:
            progress((number + 1) / len(stretches))
    if len(unmarked) == len(stretches):
        raise unmarked[0]
    measured = sum(map(len, stretches)) / rate
    find = partial(_survival, network, num_samples / rate, measured)
    return Survivals(tuple(find(name, measurements) for name, measurements in agreements.items()), measured)


def effective_energy(agreement: Agreement) -> float:
    """The energy, over the variance of the noise, at which Gaussian values would be as surely right as these are.

    A decoder errs where a sum of some of these values is negative, and Chernoff's bound tells how unlikely that is. Of
    Gaussian values it is half of the energy; slots that vary in amplitude have more than their variance tells.
    """
    values = agreement.astype(np.float64)
    if not len(values) or values.mean() <= 0:
        return 0.0
    gaussian = values.mean() / values.var()
    tilts = gaussian * np.geomspace(1 / MAX_TILT_RATIO, MAX_TILT_RATIO, NUM_TILTS)
    exponents = [-log(np.exp(-tilt * values).mean()) for tilt in tilts]
    return 2 * len(values) * max(0.0, *exponents)


def short_energy(message_bits: int) -> float:
    """What a message in every second needs in a model of so many bits: what the next larger known one needs."""
    return min((energy for bits, energy in SHORT_ENERGIES.items() if bits >= message_bits), default=float("inf"))


def read_bytes(energy: float, seconds: float, most: int, message_bits: int) -> int:
    """Bytes of the longest message that is read at this energy with a probability of READ_SHARE.

    Args:
        energy: of all slots together, over the variance of their noise.
        seconds: of the audio.
        most: bytes that fit.
        message_bits: of the model.
    """
    short_bytes = layout(message_bits).content_bytes
    longer = range(short_bytes + 1, most + 1)
    fitting = [count for count in longer if long_energy(count, seconds) <= energy]
    return max(fitting, default=short_bytes if energy >= short_energy(message_bits) else 0)


def long_energy(num_bytes: int, seconds: float) -> float:
    """The energy that a longer message of so many bytes needs in audio of so many seconds."""
    bits = 8 * num_bytes + ODD_BITS + CHECK_ZEROS
    code = bits * (LONG_BIT_ENERGY + LONG_BIT_ENERGY_PER_FOLD * log(bits / TYPICAL_BITS))
    framing = FRAMING_ENERGY + FRAMING_ENERGY_PER_SECOND * seconds
    return float(np.linalg.norm([code, framing], ENERGY_NORM))


def copies(
    marked: Samples, own: Path, encoding: Encoding, kbps: Sequence[int] = MEASURED_KBPS
) -> Iterator[tuple[str, Samples]]:
    """What a marked file holds after it was written, and what copies of that in MP3 hold.

    Args:
        marked: what is written.
        own: where to, in a folder that will be deleted.
        encoding: how the unmarked file held its samples.
        kbps: bitrates in kbit/s.

    Yields:
        The name of a copy, and its samples.
    """
    written = _written(marked, own, encoding)
    yield "untouched", written
    samples, rate = written
    coded_rate = min((known for known in MP3_RATES if known >= rate), default=max(MP3_RATES))
    if coded_rate != rate:
        length = len(samples) * coded_rate // rate
        samples = resample(samples, rate, coded_rate, length)
    pairs = [samples[:, first : first + 2] for first in range(0, samples.shape[1], 2)]
    for bitrate in kbps:
        coding = Encoding("MP3", "MPEG_LAYER_III", bitrate)
        coded = [_through(own.with_name("copy.mp3"), (pair, coded_rate), coding)[0] for pair in pairs]
        yield f"MP3 {bitrate} kbit/s", (np.concatenate(coded, 1), coded_rate)


def _spans(num_samples: int, rate: int) -> list[tuple[int, int]]:
    """First sample and length of the stretches that are measured, evenly spread; all of a short recording."""
    if num_samples <= NUM_MEASURED_STRETCHES * PROBE_SECONDS * rate:
        return [(0, num_samples)]
    starts = Listening(probes=NUM_MEASURED_STRETCHES).probe_starts(num_samples / rate)
    return [(start * rate, PROBE_SECONDS * rate) for start in starts]


def _message(network: Network, seconds: float) -> Message:
    """A message that is measured in so many seconds: a longer one, of which every second is read, if it fits."""
    bits = network.card.message_bits
    count = min(capacity(seconds, bits), MAX_MEASURED_BYTES)
    return Message(np.random.default_rng(0).bytes(max(count, 1)))


def _written(marked: Samples, own: Path, encoding: Encoding) -> Samples:
    """Samples as they come back from a file of the source's kind; as they are, if that cannot be written alone."""
    try:
        return _through(own, marked, encoding) if own.suffix in FORMATS else marked
    except FileError:
        return marked


def _through(path: Path, samples: Samples, encoding: Encoding) -> Samples:
    """Samples as they come back from a file."""
    write_audio(path, *samples, encoding)
    recording = read_audio(path)
    return recording.samples, recording.rate


def _agreements(network: Network, copy: Samples, message: Message) -> dict[str, Agreement]:
    """The soft values of a mark in the mix of a copy and, as the detector would search them, in channels apart."""
    samples, rate = copy
    channels = network.channels(PUBLIC)
    found = {"mix": _agreement(network, Hypothesis(), copy, message)}
    excerpt = excerpt_for(rate, samples.shape[1])
    excerpt.push(samples)
    for hypothesis in Screening(network, [channels], excerpt.samples, rate, "none").hypotheses():
        found["apart"] = _agreement(network, hypothesis, copy, message)
    return found


def _agreement(network: Network, hypothesis: Hypothesis, copy: Samples, message: Message) -> Agreement:
    """The soft values of a mark under a hypothesis, in all seconds that a search finds."""
    samples, rate = copy
    channels = network.channels(PUBLIC)
    symbols = plan_message(message, channels, network.card.message_bits).symbols
    search, selected = Search(network, [channels]), hypothesis.select(samples)
    search.push(resample(selected, rate, SAMPLE_RATE, network_length(len(selected), rate)))
    search.finish()
    right = [np.empty(0, np.float32)]
    for stretch in search.stretches:
        written = symbols[np.rint(stretch.starts / FRAMES_PER_SECOND).astype(int) % len(symbols)]
        right.append((stretch.llrs * written).ravel())
    return np.concatenate(right)


def _survival(
    network: Network, seconds: float, measured: float, name: str, measurements: list[dict[str, Agreement]]
) -> Survival:
    """What is read from a copy, of which some seconds were measured."""
    kinds = {kind for measurement in measurements for kind in measurement}
    nothing = np.empty(0, np.float32)
    energies = [
        effective_energy(np.concatenate([measurement.get(kind, nothing) for measurement in measurements]))
        for kind in kinds
    ]
    energy, bits = max(energies, default=0.0) * seconds / measured, network.card.message_bits
    least = short_energy(bits)
    needed = ceil(least * seconds / energy) if energy >= least else None
    longest = read_bytes(energy, seconds, capacity(seconds, bits), bits)
    return Survival(name, longest, layout(bits).content_bytes, needed)
