"""Arrays as users give them: any float or PCM type, one channel or several, back with the same bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ideaw.audio.samples import as_float, check_not_silent, check_samples, integer_rate, quantisation_step, restore
from ideaw.errors import AudioError

DTYPES = ["float16", "float32", "float64", "uint8", "int8", "int16", "int32", ">i2", ">f4"]
SHAPES = st.one_of(
    st.tuples(st.integers(0, 40)),
    st.tuples(st.integers(0, 40), st.integers(1, 16)),
)


@st.composite
def audio(draw: st.DrawFn) -> np.ndarray:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    elements = {"allow_nan": False, "allow_infinity": False} if dtype.kind == "f" else {}
    return draw(arrays.arrays(dtype, draw(SHAPES), elements=arrays.from_dtype(dtype, **elements)))


@pytest.mark.slow
@given(audio())
def test_untouched_samples_come_back_with_the_same_bits(samples: np.ndarray) -> None:
    floats = as_float(samples)
    back = restore(floats, floats, samples.dtype).reshape(samples.shape)
    assert floats.dtype == np.float64
    assert floats.shape == (len(samples), 1 if samples.ndim == 1 else samples.shape[1])
    assert back.dtype == samples.dtype
    assert back.shape == samples.shape
    assert back.tobytes() == samples.tobytes()


@pytest.mark.slow
@given(audio(), st.floats(-3, 3))
def test_integers_saturate_and_floats_stay_where_they_were(samples: np.ndarray, shift: float) -> None:
    floats = as_float(samples)
    wanted = floats + shift
    back = restore(wanted, floats, samples.dtype).reshape(samples.shape)
    if samples.dtype.kind in "iu":
        step = quantisation_step(samples.dtype)
        assert np.abs(as_float(back) - np.clip(wanted, -1, 1 - step)).max(initial=0) <= step / 2
    else:
        inside = np.abs(samples) <= 1
        assert np.abs(back[inside]).max(initial=0) <= 1
        outside = wanted.reshape(samples.shape)[~inside]
        with np.errstate(over="ignore"):
            assert np.array_equal(back[~inside], outside.astype(samples.dtype))


@pytest.mark.parametrize(
    ("samples", "low", "high"),
    [
        (np.array([0, 128, 255], np.uint8), -1.0, 127 / 128),
        (np.array([-128, 0, 127], np.int8), -1.0, 127 / 128),
        (np.array([-32768, 0, 32767], np.int16), -1.0, 32767 / 32768),
        (np.array([-(2**31), 0, 2**31 - 1], np.int32), -1.0, 1 - 2.0**-31),
    ],
)
def test_full_scale_of_integers(samples: np.ndarray, low: float, high: float) -> None:
    assert as_float(samples)[:, 0].tolist() == [low, 0.0, high]


@pytest.mark.parametrize("dtype", ["int64", "uint16", "uint32", "bool", "complex64", "U3", "object"])
def test_other_types_are_refused(dtype: str) -> None:
    with pytest.raises(AudioError, match="not audio; give float32"):
        as_float(np.zeros(16_000, dtype))


@pytest.mark.parametrize("shape", [(), (4, 4, 4)])
def test_other_dimensions_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(AudioError, match="dimensions; give"):
        as_float(np.zeros(shape))


def _power(floats: np.ndarray) -> float:
    return float(np.square(floats).mean())


def test_good_audio_passes(speech: np.ndarray, music: np.ndarray) -> None:
    check_samples(as_float(speech), 16_000)
    check_samples(as_float(music), 44_100)
    check_not_silent(_power(as_float(music)))


WRONG = {
    "no samples": (np.zeros((0, 1)), 16_000),
    "dimensions": (np.zeros(16_000), 16_000),
    "give \\(samples, channels\\)": (np.zeros((2, 44_100)), 44_100),
    "looks transposed": (np.zeros((1, 44_100)), 44_100),
    "17 channels are too many; give 1 to 16": (np.zeros((16_000, 17)), 16_000),
    "7999 Hz": (np.zeros((16_000, 1)), 7_999),
    "8000 to 192000 Hz": (np.zeros((400_000, 1)), 192_001),
    "whole number": (np.zeros((16_000, 1)), 8_000.5),
    "nan Hz": (np.zeros((16_000, 1)), float("nan")),
    "a rate that is str '24000' cannot be used; give a whole number": (np.zeros((24_000, 1)), "24000"),
    "NoneType None": (np.zeros((16_000, 1)), None),
    "0.4 s long; at least 0.5 s is needed": (np.zeros((6_400, 2)), 16_000),
    "0.49 s long": (np.zeros((7_999, 1)), 16_000),
    "NaN or infinite": (np.r_[np.zeros(16_000), np.nan][:, None], 16_000),
    "or infinite": (np.r_[np.zeros(16_000), -np.inf][:, None], 16_000),
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_audio_gets_one_line(line: str) -> None:
    floats, rate = WRONG[line]
    with pytest.raises(AudioError, match=line) as caught:
        check_samples(floats, rate)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_silence_can_be_searched_but_not_marked(speech: np.ndarray) -> None:
    zeros = np.zeros((16_000, 2))
    check_samples(zeros, 16_000)
    with pytest.raises(AudioError, match="all samples are zero"):
        check_not_silent(0.0)
    floats = as_float(speech)
    level = 20 * np.log10(np.sqrt(np.mean(floats**2)))
    check_not_silent(_power(floats) * 10 ** ((-79.9 - level) / 10))
    with pytest.raises(AudioError, match="silent"):
        check_not_silent(_power(floats) * 10 ** ((-80.1 - level) / 10))


@pytest.mark.parametrize("rate", [44_100, 44_100.0, np.float32(44_100), np.int16(16_000), np.float64(8_000)])
def test_a_whole_rate_of_any_type_is_an_integer(rate: float) -> None:
    assert type(integer_rate(rate)) is int
    assert integer_rate(rate) == rate


@pytest.mark.parametrize("rate", [44_100.5, float("inf"), "44100", None, 0, True])
def test_other_rates_are_refused(rate: float) -> None:
    with pytest.raises(AudioError, match="give a whole number from 8000 to 192000 Hz"):
        integer_rate(rate)
