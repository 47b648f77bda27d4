"""The attacks by name: the paper's order and strengths, and one line for every mistake."""

import subprocess
import sys

import numpy as np
import pytest

from ideaw.attacks.catalogue import ATTACKS, PAPER, run
from ideaw.errors import AudioError, IdeawError, MissingExtraError


def test_the_papers_eight_in_the_order_of_its_table() -> None:
    assert " ".join(ATTACKS[name].label for name in PAPER) == "GN LF CP QZ RD RS AM TS"


def test_the_papers_strengths_are_the_defaults() -> None:
    strengths = [next(iter(ATTACKS[name].strengths.items())) for name in PAPER]
    assert strengths == [
        ("snr", 35.0),
        ("cutoff", 5_000.0),
        ("kbps", 64),
        ("levels", 2**9),
        ("share", 0.001),
        ("ratio", 2.0),
        ("gain", 0.9),
        ("length", 0.9),
    ]


def test_names_labels_and_summaries_are_one_of_each() -> None:
    assert all(name == attack.name for name, attack in ATTACKS.items())
    assert len({attack.label for attack in ATTACKS.values()}) == len(ATTACKS)
    assert all(attack.summary and "\n" not in attack.summary for attack in ATTACKS.values())


@pytest.mark.parametrize("name", ["noise", "dropout", "crop", "splice"])
def test_the_seed_decides(name: str, speech: np.ndarray) -> None:
    assert (run(name, speech, 16_000, seed=1) == run(name, speech, 16_000, seed=1)).all()
    assert not np.array_equal(run(name, speech, 16_000, seed=1), run(name, speech, 16_000, seed=2))


def test_strengths_can_be_overridden(speech: np.ndarray) -> None:
    assert (run("amplitude", speech, 16_000, gain=0.5) == speech * np.float32(0.5)).all()
    assert (run("quantise", speech, 16_000, levels=8.0) == run("quantise", speech, 16_000, levels=8)).all()


@pytest.mark.parametrize(
    ("name", "strengths", "says"),
    [
        ("nois", {}, "no attack 'nois'; there are: noise, lowpass"),
        ("noise", {"loudness": 3}, "no strength 'loudness'; it has: snr, tilt"),
        ("polarity", {"snr": 3}, "it has: none"),
        ("splice", {"other": 3}, "no strength 'other'"),
        ("noise", {"snr": "loud"}, "snr of attack noise must be a number, not 'loud'"),
        ("noise", {"snr": float("nan")}, "must be a number, not nan"),
        ("noise", {"snr": True}, "must be a number, not True"),
        ("mp3", {"kbps": 64.5}, "must be a whole number, not 64.5"),
        ("lowpass", {"zero_phase": 1}, "must be true or false, not 1"),
        ("stretch", {"kind": 3}, "must be a text, not 3"),
        ("stretch", {"kind": "granular"}, "vocoder or linear, not granular"),
        ("stretch", {"length": 0}, "above 0, not 0"),
        ("stretch", {"window": 1_023}, "multiple of 4"),
        ("lowpass", {"kind": "bessel"}, "butterworth or steep, not bessel"),
        ("lowpass", {"cutoff": -1}, "above 0 Hz"),
        ("lowpass", {"order": 0}, "at least 1, not 0"),
        ("highpass", {"cutoff": 8_000}, "between 0 and 8000 Hz, not at 8000"),
        ("mp3", {"kbps": 0}, "above 0 kbit/s"),
        ("vorbis", {"quality": 2}, "from 0 to 1, not 2"),
        ("quantise", {"levels": 1}, "at least 2 levels"),
        ("dropout", {"share": 1.5}, "between 0 and 1"),
        ("resample", {"ratio": 0}, "above 0"),
        ("crop", {"keep": 0}, "above 0"),
        ("splice", {"share": 2}, "up to 1"),
        ("speed", {"factor": -1}, "above 0"),
        ("echo", {"delay": -1}, "0 seconds or more"),
        ("tempo", {"factor": 0}, "above 0"),
        ("tempo", {"window": 3}, "multiple of 4"),
        ("pitch", {"cents": 5_000}, "2400 cents at most"),
        ("reverb", {"decay": 9}, "up to 1 s, not at 9"),
        ("rerecord", {"distance": 0}, "above 0 m"),
        ("rerecord", {"low": 9_000}, "does not fit into 8000 Hz"),
        ("compress", {"ratio": 0.5}, "at least 1"),
        ("expand", {"ratio": 0.5}, "at least 1"),
        ("equalise", {"least": 9}, "not from 9 to 3 dB"),
        ("jitter", {"scale": -1}, "0 or more"),
        ("smooth", {"window": 0}, "at least 1 sample"),
        ("median", {"window": 4}, "an odd number"),
        ("crush", {"levels": 1}, "at least 2 levels"),
        ("onechannel", {"keep": -1}, "from 0, not -1"),
        ("background", {"kind": "rain"}, "both, speech, music, not rain"),
        ("background", {"count": 0}, "1 to 64 sources, not 0"),
        ("wavelet", {"levels": 0}, "1 to 12 levels"),
        ("wavelet", {"factor": -1}, "0 times the universal one or more"),
        ("subtract", {"over": -1}, "0 times the noise or more"),
        ("afftdn", {"reduction": 0}, "0.01 to 97 dB, not 0"),
        ("afftdn", {"floor": 0}, "−80 to −20 dBFS, not 0"),
        ("loudnorm", {"lufs": 0}, "−70 to −5 LUFS, not to 0"),
        ("lyra", {"kbps": 5}, "3.2, 6, 9.2 kbit/s, not 5"),
        ("lyra", {}, "the folder of Lyra's weights"),
        ("world", {"semitones": 13}, "12 semitones at most"),
        ("codec2", {"bps": 100}, "1200, 700 bit/s, not 100"),
        ("amr", {"kbps": 3}, "12.2 kbit/s, not 3"),
        ("voip", {"kbps": 1}, "6 to 64 kbit/s, not 1"),
        ("speex", {"kbps": 1}, "4 to 42 kbit/s, not 1"),
        ("lc3", {"kbps": 1}, "16 to 128 kbit/s, not 1"),
    ],
)
def test_a_mistake_gets_one_line(name: str, strengths: dict, says: str, speech: np.ndarray) -> None:
    with pytest.raises(IdeawError) as caught:
        run(name, speech, 16_000, **strengths)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "samples",
    [np.zeros(0), np.zeros((2, 3, 4)), np.zeros(9, np.int16), np.array([0.1, np.nan]), np.zeros((5, 0))],
    ids=["empty", "three axes", "integers", "NaN", "no channels"],
)
def test_what_is_no_audio_gets_one_line(samples: np.ndarray) -> None:
    with pytest.raises(AudioError):
        run("noise", samples, 16_000)


def test_aac_without_pyav_says_what_to_install(speech: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtraError, match=r"ideaw\[formats\]"):
        run("aac", speech, 16_000)


@pytest.mark.slow
def test_the_catalogue_needs_neither_torch_nor_scipy() -> None:
    code = "import sys, ideaw.attacks.catalogue; sys.exit(bool({'torch', 'scipy', 'av'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
