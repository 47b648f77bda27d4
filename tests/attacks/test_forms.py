"""The two forms of each attack held against each other on real audio: what the network trains on is what a file
goes through. Tolerances are in dB of the difference below the attacked audio."""

import inspect

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view

from ideaw.attacks import arrays, batch, catalogue, rooms
from ideaw.attacks.draw import Draw
from ideaw.audio.grid import SAMPLE_RATE

from .measure import snr

BATCHED = [name for name in catalogue.ATTACKS if name not in catalogue.MEASURED_ONLY | {"aac", "overmark"}]


def both(name: str, segments: np.ndarray, **strength: float | str) -> tuple[np.ndarray, np.ndarray]:
    """The array form of each segment, stacked, and the batched form."""
    filed = np.stack([catalogue.run(name, segment, SAMPLE_RATE, **strength) for segment in segments])
    layer = getattr(batch, name)(torch.from_numpy(segments), Draw.at(0, 0, "cpu"), **strength)
    assert layer.dtype == torch.float32
    assert layer.shape == segments.shape
    return filed, layer.numpy()


@pytest.mark.parametrize("name", BATCHED)
def test_both_forms_have_the_same_default_strengths(name: str) -> None:
    defaults = {p.name: p.default for p in inspect.signature(getattr(batch, name)).parameters.values()}
    for strength, default in catalogue.ATTACKS[name].strengths.items():
        assert defaults[strength] == default


EXACT = 110.0
"""Single against double precision: 24 bits of mantissa are 144 dB, an FFT of 2^15 points loses some of them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "strength"),
    [
        ("lowpass", {}),
        ("lowpass", {"order": 3, "cutoff": 3_500.0}),
        ("lowpass", {"zero_phase": True}),
        ("lowpass", {"kind": "steep"}),
        ("highpass", {}),
        ("highpass", {"cutoff": 60.0, "order": 6, "zero_phase": True}),
        ("mp3", {}),
        ("mp3", {"kbps": 32}),
        ("vorbis", {}),
        ("opus", {}),
        ("quantise", {}),
        ("quantise", {"levels": 300, "midrise": True}),
        ("amplitude", {}),
        ("amplitude", {"gain": 5.0}),
        ("polarity", {}),
        ("shift", {}),
        ("shift", {"seconds": -0.03}),
        ("echo", {}),
    ],
)
def test_without_chance_both_forms_agree_to_rounding(
    name: str, strength: dict[str, float | str], segments: np.ndarray
) -> None:
    for filed, layer in zip(*both(name, segments, **strength), strict=True):
        assert snr(filed, layer) > EXACT


@pytest.mark.parametrize(
    ("length", "window"), [(0.9, 2048), (1.1, 2048), (0.87, 1024), (1.15, 512)], ids=lambda value: f"{value:g}"
)
def test_stretch_agrees_up_to_phases_of_nearly_silent_bins(length: float, window: int, segments: np.ndarray) -> None:
    # Rounding turns the phase of a bin with next to no power by anything, and the error adds up over the frames.
    for filed, layer in zip(*both("stretch", segments, length=length, window=window), strict=True):
        assert snr(filed, layer) > 60


def test_linear_stretch_agrees_up_to_the_precision_of_places(segments: np.ndarray) -> None:
    # Places of up to 16,000 samples in single precision are off by a thousandth of a sample.
    for filed, layer in zip(*both("stretch", segments, kind="linear"), strict=True):
        assert snr(filed, layer) > 70


@pytest.mark.parametrize("ratio", [0.5, 11_025 / 16_000, 0.75, 2.0, 2.75, 3.0], ids=lambda value: f"{value:.3g}")
def test_resample_agrees_with_soxr_up_to_the_fit_of_its_filter(ratio: float, segments: np.ndarray) -> None:
    window = np.hanning(segments.shape[1])  # soxr fades the ends of a file in its own way
    passed = np.fft.rfftfreq(segments.shape[1]) < 0.5 * 0.92 * min(1.0, ratio)
    for filed, layer in zip(*both("resample", segments, ratio=ratio), strict=True):
        # The fit is off by up to 5 % between 93 and 98 % of the lower Nyquist frequency, where sibilants are loud.
        assert snr(filed, layer) > 30
        spectrum, error = np.fft.rfft(window * filed), np.fft.rfft(window * (filed - layer))
        assert np.sum(abs(error[passed]) ** 2) < 1e-6 * np.sum(abs(spectrum[passed]) ** 2)


@pytest.mark.parametrize("factor", [0.9, 0.97, 1.05, 1.1])
def test_speed_agrees_with_soxr_up_to_cubic_interpolation(factor: float, segments: np.ndarray) -> None:
    layer = batch.speed(torch.from_numpy(segments), Draw.at(0, 0, "cpu"), factor=factor).numpy()
    for segment, fast in zip(segments, layer, strict=True):
        filed = catalogue.run("speed", segment, SAMPLE_RATE, factor=factor)[: len(fast)]
        assert len(filed) == min(len(segment), round(len(segment) / factor))
        assert snr(filed, fast[: len(filed)]) > 40
        assert not fast[len(filed) + 1 :].any()


@pytest.mark.parametrize("wanted", [20.0, 35.0])
@pytest.mark.parametrize("tilt", [0.0, 1.0, 2.0])
def test_noise_has_the_wanted_level_and_colour_in_both_forms(wanted: float, tilt: float, segments: np.ndarray) -> None:
    shares = []
    for attacked in both("noise", segments, snr=wanted, tilt=tilt):
        added = attacked.astype(np.float64) - segments
        # Without scaling to the drawn noise, 16,000 samples leave 0.05 dB of spread (one standard deviation).
        assert [snr(x, y) for x, y in zip(segments, attacked, strict=True)] == pytest.approx([wanted] * 8, abs=0.25)
        power = (abs(np.fft.rfft(added)) ** 2 / np.sum(added**2, axis=1, keepdims=True)).mean(axis=0)
        shares.append(power[1_000:2_000].sum() / power[4_000:8_000].sum())
    # One octave and a half lower: f^-tilt integrated over both bands.
    expected = {0.0: 1 / 4, 1.0: 1.0, 2.0: 4.0}[tilt]
    assert shares == pytest.approx([expected] * 2, rel=0.1)


def test_re_recording_in_one_room_is_the_same_in_both_forms(
    segments: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    taps = rooms.response(SAMPLE_RATE, np.random.default_rng(5), 0.3, 1.0)
    monkeypatch.setattr(rooms, "response", lambda *of: taps)
    batch._rooms.cache_clear()
    for filed, layer in zip(*both("rerecord", segments, snr=200.0), strict=True):
        assert snr(filed, layer) > EXACT
    batch._rooms.cache_clear()


@pytest.mark.parametrize("share", [0.001, 0.01])
def test_dropout_zeroes_the_wanted_share_and_nothing_else(share: float, segments: np.ndarray) -> None:
    sounding = segments != 0
    count = sounding.sum()
    for attacked in both("dropout", segments, share=share):
        changed = attacked != segments
        assert not attacked[changed].any()
        # Four standard deviations of as many draws.
        assert changed.sum() == pytest.approx(share * count, abs=4 * np.sqrt(share * count))


@pytest.mark.parametrize("keep", [0.3, 0.5])
def test_crop_keeps_one_stretch(keep: float, segments: np.ndarray) -> None:
    layer = batch.crop(torch.from_numpy(segments), Draw.at(0, 0, "cpu"), keep=keep).numpy()
    starts = set()
    for seed, (segment, kept) in enumerate(zip(segments, layer, strict=True)):
        filed = catalogue.run("crop", segment, SAMPLE_RATE, seed=seed, keep=keep)
        assert len(filed) == round(keep * len(segment))
        assert (sliding_window_view(segment, len(filed)) == filed).all(axis=1).any()
        sounding = np.flatnonzero(kept)
        starts.add(sounding[0])
        stretch = slice(sounding[0], sounding[-1] + 1)
        assert (kept[stretch] == segment[stretch]).all()
        # Zeros of the audio itself may lie at the ends of the stretch.
        assert keep * len(segment) - 50 < stretch.stop - stretch.start <= keep * len(segment) + 1
    assert len(starts) == len(segments)


def test_splice_replaces_one_stretch_by_other_audio(segments: np.ndarray) -> None:
    other = segments[::-1].copy()
    layer = batch.splice(
        torch.from_numpy(segments), Draw.at(0, 0, "cpu"), share=0.25, other=torch.from_numpy(other)
    ).numpy()
    filed = np.stack(
        [
            arrays.splice(x, SAMPLE_RATE, np.random.default_rng(k), 0.25, o)
            for k, (x, o) in enumerate(zip(segments, other, strict=True))
        ]
    )
    for spliced in (layer, filed):
        changed = spliced != segments
        assert (spliced[changed] == other[changed]).all()
        for row in changed:
            first, last = np.flatnonzero(row)[[0, -1]]
            assert 4_000 - 50 < last + 1 - first <= 4_001
            assert row[first : last + 1].mean() > 0.95  # the rest are samples that are equal by chance


def test_splice_without_other_audio_finds_some(segments: np.ndarray) -> None:
    for spliced in both("splice", segments):
        assert ((spliced != segments).mean(axis=1) > 0.2).all()
        assert ((spliced != segments).mean(axis=1) < 0.26).all()
