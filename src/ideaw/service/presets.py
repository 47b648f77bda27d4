"""The attacks of the playground: a few of the catalogue, at strengths that people meet, under ids for the page."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ideaw.attacks import catalogue


@dataclass(frozen=True)
class Preset:
    """One button: what it is called and does, and which attack of the catalogue that is."""

    id: str
    label: str
    summary: str
    attack: str
    strengths: dict[str, float | str] = field(default_factory=dict)
    through_rate: int | None = None
    """A rate in Hz to which the audio is resampled, and back; what ratio that is depends on the audio."""

    def apply(self, samples: NDArray[np.float64], rate: int) -> NDArray[np.float64]:
        """`(n, channels)` attacked, always in the same way."""
        strengths = dict(self.strengths)
        if self.through_rate is not None:
            strengths["ratio"] = min(1.0, self.through_rate / rate)
        return catalogue.run(self.attack, samples, rate, seed=0, **strengths)


PLAYGROUND: dict[str, Preset] = {
    preset.id: preset
    for preset in (
        Preset("mp3-64", "MP3 64", "compressed to MP3 at 64 kbit/s", "mp3"),
        Preset("mp3-32", "MP3 32", "compressed to MP3 at 32 kbit/s, which is heard", "mp3", {"kbps": 32}),
        Preset("opus-32", "Opus 32", "compressed to Opus at 32 kbit/s per channel, as in calls", "opus"),
        Preset("cut", "Cut", "a random half is kept, the rest is cut away", "crop"),
        Preset("noise", "Noise", "white noise 30 dB below the audio", "noise", {"snr": 30.0}),
        Preset("faster", "Faster", "played 5 % faster, pitch included", "speed"),
        Preset("tempo", "Tempo", "5 % faster at the same pitch", "tempo"),
        Preset("8-khz", "8 kHz", "resampled to 8 kHz and back", "resample", through_rate=8_000),
        Preset("quieter", "Quieter", "20 dB quieter", "amplitude", {"gain": 0.1}),
        Preset("echo", "Echo", "an echo after 0.1 s, 10 dB down", "echo"),
        Preset("lowpass", "Muffled", "everything above 5 kHz removed", "lowpass"),
        Preset("room", "Room", "played in a room and recorded a metre away, simulated", "rerecord"),
    )
}
