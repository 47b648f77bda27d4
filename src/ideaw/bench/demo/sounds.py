"""One clip of the demo, as files: host, marked, difference and attacked copies, with what was measured and found.

Everything is measured in the files that the page plays. So a copy is searched as it is published, as an MP3.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import soxr
from numpy.typing import NDArray

from ideaw.attacks import catalogue, codecs
from ideaw.audio.blocks import SOXR_QUALITY, to_network_mono
from ideaw.audio.formats import MP3_RATES
from ideaw.audio.read import read_audio
from ideaw.audio.write import write_audio
from ideaw.bench.demo.clips import Clip
from ideaw.bench.listen import excerpt
from ideaw.errors import AudioError
from ideaw.marker import Marker
from ideaw.payload.message import Content, Message
from ideaw.quality import fidelity, plots
from ideaw.quality.loudness import masking_of_rest
from ideaw.quality.modulation import modulation_audibility
from ideaw.quality.plots import residual_gain

MAX_CLIP_CHANNELS = 2
"""More than stereo is not played: MP3 has no more, and few listeners."""

COPY_KBPS = 64
"""kbit/s of a copy's MP3 file for each channel, where the attack is not MP3 itself."""

Outcome = Literal["found", "unreadable", "none", "wrong"]


@dataclass(frozen=True)
class Treatment:
    """What is done to a marked clip: an attack of the catalogue, then an MP3 file."""

    name: str
    label: str
    attack: str | None
    """None: the MP3 file is the attack."""
    strengths: dict[str, float | str] = field(default_factory=dict)
    kbps: int | None = None
    """Of the whole MP3 file; None for `COPY_KBPS` in each channel."""


TREATMENTS = (
    Treatment("mp3-64", "MP3 at 64 kbit/s", None, kbps=64),
    Treatment("mp3-32", "MP3 at 32 kbit/s", None, kbps=32),
    Treatment("opus", "Opus at 24 kbit/s a channel", "opus", {"kbps": 24}),
    Treatment("noise", "White noise, 20 dB below the audio", "noise", {"snr": 20.0}),
    Treatment("lowpass", "Nothing above 4 kHz", "lowpass", {"cutoff": 4_000.0}),
    Treatment("cut", "Half of it, cut out at random", "crop", {"keep": 0.5}),
    Treatment("faster", "5 % faster, pitch included", "speed", {"factor": 1.05}),
    Treatment("higher", "A semitone higher, at the same tempo", "pitch"),
    Treatment("quieter", "A tenth of the amplitude", "amplitude", {"gain": 0.1}),
    Treatment("room", "Played in a room and recorded a metre away, simulated", "rerecord"),
)


@dataclass(frozen=True)
class Searched:
    """A file that is played, and what a search in it gave."""

    label: str
    file: str
    outcome: Outcome
    answer: str


@dataclass(frozen=True)
class Sounds:
    """What the page of a clip says and plays; files lie in the folder of the clip."""

    clip: Clip
    message: str
    rate: int
    channels: int
    seconds: float
    level: float
    """RMS of the host in dBFS."""
    snr: float
    lowest_snr: float
    """Of a second, in dB."""
    pesq: float
    """NaN where PESQ hears no speech."""
    stoi: float
    masked: float
    """Share of moments and bands in which the difference lies below the masking curve."""
    noise_to_mask: float
    """In dB, of what differs besides slow changes of loudness."""
    modulation: float
    """dB of these changes over what is just heard, in 99 % of all moments and bands."""
    difference_gain: int
    """How many times as loud the difference is played and drawn."""
    host: Searched
    marked: Searched
    copies: list[Searched]
    """The attacked ones."""


def make_sounds(folder: Path, clip: Clip, marker: Marker, message: Content, seconds: float) -> Sounds:
    """Mark the middle of a clip, attack it, search all of it, and write sounds and pictures into `folder`.

    Raises:
        AudioError, FileError: The clip cannot be read, marked or played.
    """
    files = {name: folder / f"{name}.flac" for name in ("host", "marked", "difference")}
    samples, rate = _playable(clip, seconds)
    write_audio(files["host"], samples, rate)
    try:
        marker.embed_file(files["host"], files["marked"], message)
    except AudioError as problem:
        raise AudioError(f"{clip.path}: {problem}") from problem
    host, marked = (read_audio(files[name]).samples for name in ("host", "marked"))
    gain = residual_gain(host, marked - host)
    write_audio(files["difference"], gain * (marked - host), rate)
    mono = [to_network_mono(signal, rate) for signal in (host, marked)]
    heard = masking_of_rest(*mono)
    for name, picture in plots.panels(host, marked, rate, heard).items():
        (folder / f"{name}.svg").write_bytes(picture)
    return Sounds(
        clip,
        str(Message(message)),
        rate,
        host.shape[1],
        len(host) / rate,
        float(10 * np.log10(np.square(host).mean())),
        fidelity.snr(host, marked),
        fidelity.lowest_snr(host, marked, rate),
        fidelity.pesq(*mono),
        fidelity.stoi(*mono),
        heard.masked,
        heard.ratio,
        modulation_audibility(*mono).percentile_99,
        gain,
        _search(files["host"], "Host, not marked", marker, message),
        _search(files["marked"], "Marked, untouched", marker, message),
        [_copy(folder, treatment, marked, rate, marker, message) for treatment in TREATMENTS],
    )


def _playable(clip: Clip, seconds: float) -> tuple[NDArray[np.float64], int]:
    """The middle of a clip, `(n, channels)`, at a rate in Hz that MP3 has too."""
    samples, rate = excerpt(clip.path, seconds)
    if samples.shape[1] > MAX_CLIP_CHANNELS:
        raise AudioError(
            f"{clip.path} has {samples.shape[1]} channels; the demo plays files of at most {MAX_CLIP_CHANNELS}"
        )
    if rate in MP3_RATES:
        return samples, rate
    return soxr.resample(samples, rate, max(MP3_RATES), SOXR_QUALITY), max(MP3_RATES)


def _copy(
    folder: Path, treatment: Treatment, marked: NDArray[np.float64], rate: int, marker: Marker, message: Content
) -> Searched:
    """Attack `(n, channels)` samples, and search the MP3 file that they become."""
    attacked, kbps = marked, treatment.kbps or COPY_KBPS * marked.shape[1]
    if treatment.attack is not None:
        attacked = catalogue.run(treatment.attack, marked, rate, 0, **treatment.strengths)
    file = folder / f"{treatment.name}.mp3"
    file.write_bytes(codecs.mp3_bytes(attacked, rate, kbps))
    return _search(file, treatment.label, marker, message)


def _search(file: Path, label: str, marker: Marker, message: Content) -> Searched:
    detection = marker.detect_file(file)
    outcome: Outcome = "wrong" if detection.found and detection.message != message else detection.status
    return Searched(label, file.name, outcome, str(detection))
