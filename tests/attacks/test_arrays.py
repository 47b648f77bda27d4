"""What each attack does to a file, against independent references: scipy's filters, the textbook's phase vocoder,
the sizes and delays of encoded files."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import signal

import ideaw
from ideaw.attacks import arrays, catalogue, codecs, dynamics, filters, rooms, scenes, vocoder
from ideaw.audio.grid import SAMPLE_RATE

from .measure import delay, snr

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("order", "cutoff"), [(1, 3_000.0), (4, 5_000.0), (8, 5_000.0), (11, 6_500.0)])
@pytest.mark.parametrize("zero_phase", [False, True])
def test_lowpass_is_scipys_butterworth(order: int, cutoff: float, zero_phase: bool, music: np.ndarray) -> None:
    # 264,600 samples: more than one block, so the seam is in the test.
    assert len(music) > filters.FFT_BLOCK_SAMPLES
    sections = signal.butter(order, cutoff, fs=44_100, output="sos")
    expected = signal.sosfilt(sections, music.astype(np.float64), axis=0)
    if zero_phase:
        expected = signal.sosfilt(sections, expected[::-1], axis=0)[::-1]
    # What is left is single precision, and the forward tail that the reference cuts off before it turns back.
    inner = slice(0, -2_000 if zero_phase else None)
    assert snr(expected[inner], arrays.lowpass(music, 44_100, RNG, cutoff, order, zero_phase)[inner]) > 120


@pytest.mark.parametrize(("order", "cutoff"), [(1, 60.0), (4, 300.0), (7, 500.0)])
def test_highpass_is_scipys_butterworth(order: int, cutoff: float, speech: np.ndarray) -> None:
    expected = signal.sosfilt(
        signal.butter(order, cutoff, "high", fs=SAMPLE_RATE, output="sos"), speech.astype(np.float64)
    )
    assert snr(expected, arrays.highpass(speech, SAMPLE_RATE, RNG, cutoff, order)) > 110


def test_steep_lowpass_is_near_to_a_long_windowed_sinc(speech: np.ndarray) -> None:
    taps = signal.firwin(129, 5_000.0, fs=SAMPLE_RATE, window="hamming")
    expected = signal.fftconvolve(speech.astype(np.float64), taps, "same")
    steep = arrays.lowpass(speech, SAMPLE_RATE, RNG, kind="steep")
    assert delay(expected, steep) == 0
    assert snr(expected, steep) > 35  # the two fall differently between 4.8 and 5.2 kHz


def test_lowpass_above_half_the_rate_does_nothing(speech: np.ndarray) -> None:
    assert (arrays.lowpass(speech, 8_000, RNG) == speech).all()


@pytest.mark.parametrize("kbps", [32, 48, 64, 96, 128])
def test_mp3_has_exactly_the_bitrate(kbps: int, speech: np.ndarray) -> None:
    longer, shorter = (len(codecs.mp3_bytes(speech[: s * SAMPLE_RATE], SAMPLE_RATE, kbps)) for s in (6, 1))
    frame = kbps * 1000 / 8 * 576 / SAMPLE_RATE
    assert longer - shorter == pytest.approx(5 * kbps * 1000 / 8, abs=frame)


def test_mp3_has_exactly_the_bitrate_in_stereo_at_44_1_khz(music: np.ndarray) -> None:
    longer, shorter = (len(codecs.mp3_bytes(music[: s * 44_100], 44_100, 64)) for s in (6, 1))
    assert longer - shorter == pytest.approx(5 * 8_000, abs=210)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "strength"),
    [("mp3", {"kbps": k}) for k in (8, 24, 32, 48, 64, 128)]
    + [("vorbis", {"quality": q}) for q in (0.0, 0.4, 1.0)]
    + [("opus", {"kbps": k}) for k in (16, 32, 64)]
    + [("aac", {"kbps": k}) for k in (32, 64, 128)],
)
def test_codecs_keep_length_and_place(
    name: str, strength: dict[str, float], speech: np.ndarray, music: np.ndarray
) -> None:
    for samples, rate in (
        (speech, SAMPLE_RATE),
        (speech[:SAMPLE_RATE], SAMPLE_RATE),
        (music[:100_001], 44_100),
        (music[:50_000], 30_000),
    ):
        coded = catalogue.run(name, samples, rate, **strength)
        assert coded.shape == samples.shape
        assert coded.dtype == samples.dtype
        late = delay(samples.reshape(len(samples), -1)[:, 0], coded.reshape(len(coded), -1)[:, 0])
        # Opus resamples inside at low bitrates, which leaves a fraction of a sample.
        assert abs(late) <= (1 if name == "opus" else 0)
        assert snr(samples, coded) < 60  # it did go through a lossy codec


@pytest.mark.slow
def test_vorbis_takes_minutes(music: np.ndarray) -> None:
    # libsndfile's encoder crashes when it gets this much at once.
    minutes = np.tile(music, (12, 1))
    coded = catalogue.run("vorbis", minutes, 44_100)
    assert coded.shape == minutes.shape
    assert snr(minutes[-100_000:], coded[-100_000:]) > 6


@pytest.mark.slow
def test_a_codec_takes_more_channels_than_two(music: np.ndarray) -> None:
    five = np.concatenate((music, music, music[:, :1]), axis=1)[:44_100]
    for name in ("mp3", "vorbis", "opus", "aac"):
        coded = catalogue.run(name, five, 44_100)
        assert all(snr(five[:, k], coded[:, k]) > 6 for k in range(5))


@pytest.mark.parametrize("midrise", [False, True])
def test_quantise_has_as_many_levels_as_said(midrise: bool) -> None:
    ramp = np.linspace(-1.2, 1.2, 100_000)
    quantised = arrays.quantise(ramp, SAMPLE_RATE, RNG, 512, midrise)
    assert len(np.unique(quantised)) == 512
    assert np.diff(np.unique(quantised)) == pytest.approx(2 / 512)
    assert (0.0 in quantised) is not midrise
    inside = abs(ramp) < 1 - 2 / 512
    assert abs(quantised - ramp)[inside].max() <= 1 / 512 + 1e-12


def test_resample_keeps_the_passband_and_cuts_at_the_lower_rate(speech: np.ndarray) -> None:
    frequency = np.fft.rfftfreq(len(speech), 1 / SAMPLE_RATE)
    before, doubled, halved = (
        np.fft.rfft(y * np.hanning(len(speech)))
        for y in (
            speech,
            arrays.resample(speech, SAMPLE_RATE, RNG, 2.0),
            arrays.resample(speech, SAMPLE_RATE, RNG, 0.5),
        )
    )
    assert snr(abs(before), abs(before) + abs(doubled - before) * (frequency < 7_000)) > 80
    assert snr(abs(before), abs(before) + abs(halved - before) * (frequency < 3_500)) > 80
    assert snr(abs(before), abs(before) + abs(halved) * (frequency > 4_000)) > 80


def textbook_vocoder(x: np.ndarray, speed: float, size: int) -> np.ndarray:
    """The classic phase vocoder, frame by frame as in librosa, with the expected advance of each bin in full."""
    hop = size // 4
    window = signal.get_window("hann", size)
    padded = np.pad(x, size // 2)
    spectrum = np.array([np.fft.rfft(window * padded[k : k + size]) for k in range(0, len(padded) - size + 1, hop)])
    steps = np.arange(0, len(spectrum), speed)
    spectrum = np.pad(spectrum, ((0, 2), (0, 0)))
    expected = 2 * np.pi * hop / size * np.arange(size // 2 + 1)
    phase = np.angle(spectrum[0])
    y, weight = np.zeros((2, (len(steps) - 1) * hop + size))
    for k, step in enumerate(steps):
        here, there = spectrum[int(step)], spectrum[int(step) + 1]
        magnitude = (1 - step % 1) * abs(here) + step % 1 * abs(there)
        frame = slice(k * hop, k * hop + size)
        y[frame] += window * np.fft.irfft(magnitude * np.exp(1j * phase), size)
        weight[frame] += window**2
        deviation = np.angle(there) - np.angle(here) - expected
        phase += expected + deviation - 2 * np.pi * np.round(deviation / (2 * np.pi))
    kept = slice(size // 2, size // 2 + round(len(x) / speed))
    return y[kept] / np.maximum(weight[kept], 1e-6)


@pytest.mark.parametrize(("length", "window"), [(0.9, 2048), (1.15, 512)])
def test_stretch_is_the_textbooks_phase_vocoder_twice(length: float, window: int, speech: np.ndarray) -> None:
    x = speech.astype(np.float64)
    # With the short window the frames fill more than one block.
    assert window == 2048 or len(x) // (window // 4) > vocoder.VOCODER_BLOCK_FRAMES
    expected = textbook_vocoder(textbook_vocoder(x, 1 / length, window), length, window)
    stretched = arrays.stretch(x, SAMPLE_RATE, RNG, length, window)
    assert len(stretched) == len(x)
    n = min(len(expected), len(x))
    assert snr(expected[:n], stretched[:n]) > 60  # rounding turns the phases of nearly silent bins


def test_stretch_keeps_pitch_and_level_of_a_tone() -> None:
    tone = 0.5 * np.sin(2 * np.pi * 1_000 * np.arange(3 * SAMPLE_RATE) / SAMPLE_RATE)
    middle = slice(SAMPLE_RATE, 2 * SAMPLE_RATE)
    stretched = arrays.stretch(tone, SAMPLE_RATE, RNG)[middle]
    assert np.argmax(abs(np.fft.rfft(stretched))) == 1_000
    # The bins of one tone come out of step with each other, which costs up to a tenth of the amplitude.
    assert np.std(stretched) == pytest.approx(np.std(tone[middle]), rel=0.1)


def test_speed_moves_the_pitch() -> None:
    tone = np.sin(2 * np.pi * 1_000 * np.arange(2 * SAMPLE_RATE) / SAMPLE_RATE)
    fast = arrays.speed(tone, SAMPLE_RATE, RNG, 1.1)
    assert len(fast) == math.ceil(2 * SAMPLE_RATE / 1.1)
    assert np.argmax(abs(np.fft.rfft(fast[:SAMPLE_RATE]))) == 1_100


@pytest.mark.parametrize("seconds", [0.1, -0.1, 7.0, -7.0, 0.0])
def test_shift_moves_zeros_in(seconds: float, speech: np.ndarray) -> None:
    by = round(seconds * SAMPLE_RATE)
    padded = np.pad(speech, 7 * SAMPLE_RATE)
    expected = padded[7 * SAMPLE_RATE - by :][: len(speech)]
    assert (arrays.shift(speech, SAMPLE_RATE, RNG, seconds) == expected).all()


def test_echo_comes_once_and_later() -> None:
    click = np.zeros(SAMPLE_RATE)
    click[100] = 1.0
    echoed = arrays.echo(click, SAMPLE_RATE, RNG, 0.1, 0.3)
    assert dict(zip(np.flatnonzero(echoed), echoed[echoed != 0], strict=True)) == {100: 1.0, 1_700: 0.3}


def test_tempo_keeps_the_pitch_and_pitch_the_tempo() -> None:
    tone = np.sin(2 * np.pi * 1_000 * np.arange(3 * SAMPLE_RATE) / SAMPLE_RATE)
    fast, high = arrays.tempo(tone, SAMPLE_RATE, RNG, 1.25), arrays.pitch(tone, SAMPLE_RATE, RNG, 1_200)
    assert (len(fast), len(high)) == (round(3 * SAMPLE_RATE / 1.25), 3 * SAMPLE_RATE)
    for made, peak in ((fast, 1_000), (high, 2_000)):
        assert np.argmax(abs(np.fft.rfft(made[SAMPLE_RATE // 2 :][:SAMPLE_RATE]))) == peak


def test_background_and_reverb_have_the_level_that_is_asked_for(music: np.ndarray) -> None:
    for attack in (scenes.background, scenes.reverb):
        attacked = attack(music, 44_100, np.random.default_rng(3), snr=12.0)
        for channel in range(2):
            assert snr(music[:, channel], attacked[:, channel]) == pytest.approx(12, abs=0.01)


@pytest.mark.parametrize("decay", [0.2, 0.5])
def test_a_room_decays_as_long_as_it_should(decay: float) -> None:
    rooms_heard = [rooms.response(SAMPLE_RATE, np.random.default_rng(seed), decay, 1.0) for seed in range(8)]
    falls = []
    for taps in rooms_heard:
        assert taps[0] == pytest.approx(1, abs=0.01)
        heard = arrays.highpass(taps, SAMPLE_RATE, RNG)  # images pile up at 0 Hz, where no loudspeaker plays
        left = 10 * np.log10(np.cumsum(np.square(heard[::-1]))[::-1] / np.sum(np.square(heard)))  # Schroeder, 1965
        first, last = (int(np.argmax(left < level)) for level in (-5, -25))
        falls.append(3 * (last - first) / SAMPLE_RATE)
    # Sound between walls that are far apart lives longer than the formula for a diffuse field says.
    assert 0.8 * decay < np.mean(falls) < 1.6 * decay


def test_rerecording_is_the_room_the_band_and_noise(speech: np.ndarray) -> None:
    heard = scenes.rerecord(speech, SAMPLE_RATE, np.random.default_rng(1))
    spectrum, before = (abs(np.fft.rfft(x)) ** 2 for x in (heard, speech))
    frequency = np.fft.rfftfreq(len(speech), 1 / SAMPLE_RATE)
    assert abs(delay(speech, heard)) <= 2
    assert np.std(heard) == pytest.approx(np.std(speech), rel=0.01)
    assert -6 < snr(speech, heard) < 6
    assert spectrum[frequency < 60].sum() / spectrum.sum() < before[frequency < 60].sum() / before.sum()


def test_a_compressor_and_an_expander_change_levels_by_their_ratio() -> None:
    tone = np.sin(2 * np.pi * 500 * np.arange(2 * SAMPLE_RATE) / SAMPLE_RATE)
    for level in (-30.0, -12.0, -6.0):
        audio = 10 ** (level / 20) * tone
        for attack, expected in (
            (dynamics.compress, level if level < -18 else -18 + (level + 18) / 4),
            (dynamics.expand, level if level > -12 else -12 + 2 * (level + 12)),
        ):
            loudest = abs(attack(audio, SAMPLE_RATE, RNG)[SAMPLE_RATE:]).max()
            # The level is followed with a delay, so it is seen a little below the peaks.
            assert 20 * np.log10(loudest) == pytest.approx(expected, abs=1.2)


def test_an_equaliser_stays_within_its_gains() -> None:
    click = np.zeros(1 << 14)
    click[1 << 13] = 1.0
    gains = 20 * np.log10(abs(np.fft.rfft(arrays.equalise(click, 44_100, np.random.default_rng(2), 2.0, 4.0))))
    assert 3 < abs(gains).max() <= 4.01
    assert gains.min() < -2 < 2 < gains.max()


def test_jitter_hurts_high_frequencies_more() -> None:
    low, high = (np.sin(2 * np.pi * f * np.arange(SAMPLE_RATE) / SAMPLE_RATE) for f in (100, 4_000))
    assert snr(low, arrays.jitter(low, SAMPLE_RATE, RNG)) > snr(high, arrays.jitter(high, SAMPLE_RATE, RNG)) + 20


def test_means_medians_and_levels() -> None:
    steps = np.array([0.0, 0, 9, 0, 1, 2, 3, 3, 3]) / 9
    assert arrays.smooth(steps, SAMPLE_RATE, RNG, 3) * 27 == pytest.approx([0, 0, 9, 9, 10, 3, 6, 8, 9])
    assert arrays.median(steps, SAMPLE_RATE, RNG) * 9 == pytest.approx([0, 0, 0, 1, 1, 2, 3, 3, 3])
    assert arrays.crush(steps, SAMPLE_RATE, RNG, 4) * 9 == pytest.approx([0, 0, 9, 0, 0, 3, 3, 3, 3])


@pytest.mark.slow
def test_one_channel_is_kept_or_all_are_mixed(music: np.ndarray) -> None:
    right = arrays.onechannel(music, 44_100, RNG, 1)
    assert not right[:, 0].any()
    assert (right[:, 1] == music[:, 1]).all()
    mixed = arrays.mono(music, 44_100, RNG)
    assert mixed.shape == music.shape
    assert (mixed[:, 0] == mixed[:, 1]).all()
    assert mixed[:, 0] == pytest.approx(music.mean(1))


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(
        sorted(set(catalogue.ATTACKS) - {"overmark"} - catalogue.OTHERS_PARTS)
    ),  # a mark needs a second
    rate=st.sampled_from((8_000, 16_000, 22_050, 44_100, 48_000, 96_000, 192_000)),
    channels=st.integers(0, 3),
    n=st.integers(1, 30_000),
    dtype=st.sampled_from((np.float32, np.float64)),
)
@example(name="opus", rate=192_000, channels=0, n=1, dtype=np.float32)
def test_every_attack_takes_any_shape_rate_and_length(
    name: str, rate: int, channels: int, n: int, dtype: type, music: np.ndarray
) -> None:
    samples: np.ndarray = (music[:n, 0] if channels == 0 else music[:n, [0, 1, 0][:channels]]).astype(dtype)
    untouched = samples.copy()
    attacked = catalogue.run(name, samples, rate)
    assert attacked.dtype == samples.dtype
    assert attacked.shape[1:] == samples.shape[1:]
    assert np.isfinite(attacked).all()
    assert (samples == untouched).all()
    if name not in ("crop", "speed", "tempo"):
        assert len(attacked) == n


@pytest.mark.slow
def test_a_second_mark_keeps_its_snr_and_leaves_the_first_to_be_found(speech: np.ndarray) -> None:
    marker = ideaw.load()
    first = marker.embed(speech, SAMPLE_RATE, "one")
    second = catalogue.run("overmark", first, SAMPLE_RATE, seed=3)
    assert second.shape == first.shape
    assert second.dtype == first.dtype
    assert snr(first, second) > 35.9
    assert not np.array_equal(first[SAMPLE_RATE:], second[SAMPLE_RATE:])
    assert marker.detect(second, SAMPLE_RATE).message == "one"
