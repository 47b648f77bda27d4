"""Hypotheses: the loudest seconds are the same however audio arrives, and tell which channels and speed to search."""

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import ideaw
from ideaw import hypotheses
from ideaw.attacks import catalogue
from ideaw.audio.grid import HOP_SAMPLES, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.engine.correlate import Track
from ideaw.engine.network import Network
from ideaw.hypotheses import (
    MAX_EXCERPT_SAMPLES,
    MIN_EXCERPT_SECONDS,
    SCREENED_SECONDS,
    SPEED_GRID,
    SPEED_RATIO,
    TEMPO_GRID,
    Hypothesis,
    LoudestExcerpt,
    Screening,
    Speeds,
    check_speeds,
    count_hypotheses,
    differ_from_mix,
    excerpt_for,
)
from ideaw.keys import PUBLIC


@pytest.fixture(scope="module")
def marker() -> ideaw.Marker:
    return ideaw.load()


@pytest.fixture(scope="module")
def network(marker: ideaw.Marker) -> Network:
    return marker.network


@pytest.fixture(scope="module")
def marked(marker: ideaw.Marker, strings: NDArray[np.float32]) -> NDArray[np.float32]:
    """Three seconds of music."""
    return marker.embed(strings[: 3 * SEGMENT_SAMPLES], SAMPLE_RATE, "hey")


def _hypotheses(
    network: Network, audio: NDArray[np.floating], *keys: bytes, rate: int = SAMPLE_RATE, speeds: Speeds = "none"
) -> list[Hypothesis]:
    channels = [network.channels(key) for key in keys]
    return list(Screening(network, channels, audio, rate, speeds).hypotheses())


# The loudest seconds


def _loudest(blocks: list[NDArray[np.float64]], rate: int) -> NDArray[np.floating]:
    loud = LoudestExcerpt(rate, MIN_EXCERPT_SECONDS)
    passed = list(loud.tap(iter(blocks)))
    assert all(one is other for one, other in zip(passed, blocks, strict=True))
    return loud.samples


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 12_000),
    channels=st.integers(1, 3),
    cuts=st.lists(st.integers(0, 12_000), max_size=9),
    seed=st.integers(0, 99),
)
def test_the_loudest_seconds_are_the_same_however_audio_is_cut(
    length: int, channels: int, cuts: list[int], seed: int
) -> None:
    rate = 1_000
    rng = np.random.default_rng(seed)
    audio = rng.standard_normal((length, channels)) * rng.uniform(0, 1, (length // 500 + 1, 1)).repeat(500, 0)[:length]
    whole = _loudest([audio], rate)
    assert np.array_equal(_loudest(np.split(audio, sorted(cut for cut in cuts if cut < length)), rate), whole)
    size = round(MIN_EXCERPT_SECONDS * rate)
    assert len(whole) == min(length, size)
    energies = [np.square(audio[start : start + size]).sum() for start in range(0, length, rate // 4)]
    full = [energy for place, energy in enumerate(energies) if place * rate // 4 + size <= length]
    assert np.square(whole).sum() == pytest.approx(max(full, default=energies[0]))


def test_nothing_has_no_loudest_seconds() -> None:
    for blocks in ([], [np.zeros((0, 2))]):
        assert not _loudest(blocks, 1_000).size


def test_silence_has_loudest_seconds_too() -> None:
    assert np.array_equal(
        _loudest([np.zeros((5_000, 2))] * 3, 1_000), np.zeros((round(MIN_EXCERPT_SECONDS * 1_000), 2))
    )


# Speeds


def test_the_grids_leave_no_speed_out() -> None:
    half = SPEED_RATIO**0.5
    near, every = SPEED_GRID["near"], SPEED_GRID["all"]
    assert max(every) * half > 1.25
    assert min(every) / half < 0.8
    assert max(near) * half > 1.06
    assert min(near) / half < 0.94
    for grid in (near, every):
        with_plain = np.sort([1.0, *grid])
        assert np.max(with_plain[1:] / with_plain[:-1]) < SPEED_RATIO + 1e-9
    assert set(near) < set(every)
    assert SPEED_GRID["none"] == ()


def test_the_grids_leave_no_tempo_out() -> None:
    for name, lowest, highest in (("near", 0.94, 1.06), ("all", 0.8, 1.25)):
        grid = np.sort([1.0, *TEMPO_GRID[name]])
        for tempo in np.linspace(lowest, highest, 999):
            assert np.abs(grid / tempo - 1).min() < 0.0026
        assert 1.0 not in TEMPO_GRID[name]
    assert TEMPO_GRID["none"] == ()


@pytest.mark.parametrize("speeds", ["near", "all"])
def test_every_tempo_is_a_hop_of_its_own(speeds: Speeds) -> None:
    hops = [HOP_SAMPLES / tempo for tempo in TEMPO_GRID[speeds]]
    assert hops == pytest.approx(np.rint(hops))
    assert len(set(np.rint(hops)) - {HOP_SAMPLES}) == len(hops)


def test_speeds_that_are_not_known_are_refused() -> None:
    for speeds in SPEED_GRID:
        assert check_speeds(speeds) == speeds
    with pytest.raises(ideaw.IdeawError, match="none, near, all"):
        check_speeds("some")


@pytest.mark.parametrize(
    ("speed", "speeds"),
    [
        (1.03, "near"),
        (0.947, "near"),
        pytest.param(0.81, "all", marks=pytest.mark.slow),
        pytest.param(1.24, "all", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_a_speed_is_found(
    network: Network,
    marked: NDArray[np.float32],
    speed: float,
    speeds: Speeds,
    rate: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hypotheses, "CANDIDATE_P", 1e-6)
    played = soxr.resample(marked, SAMPLE_RATE * speed, rate)[: round(MIN_EXCERPT_SECONDS * rate), None]
    (best,) = _hypotheses(network, played, b"no key", PUBLIC, rate=rate, speeds=speeds)
    assert best.channels is None
    assert best.speed == pytest.approx(speed, rel=0.004)  # near enough: the search at this speed follows the rest


@pytest.mark.parametrize("tempo", [0.82, 0.95, 1.05, 1.2])
def test_a_tempo_is_told_from_a_speed(network: Network, marked: NDArray[np.float32], tempo: float) -> None:
    stretched = catalogue.run("tempo", marked, SAMPLE_RATE, factor=tempo)
    (best,) = _hypotheses(network, stretched[:, None], PUBLIC, speeds="all")
    assert (best.channels, best.speed) == (None, 1)
    # Near enough in 3 s: of 48 trials with other messages 12 were more than 1 % off, and none 1.5 %.
    assert best.tempo == pytest.approx(tempo, rel=0.015)


def test_a_mark_as_it_was_made_gives_no_other_speed(network: Network, marked: NDArray[np.float32]) -> None:
    screening = Screening(network, [network.channels(PUBLIC)], marked[:, None], SAMPLE_RATE, "all")
    assert list(screening.hypotheses()) == []


def test_unmarked_audio_and_silence_have_no_speed(network: Network, strings: NDArray[np.float32]) -> None:
    for audio in (strings[: 4 * SEGMENT_SAMPLES], np.zeros(4 * SEGMENT_SAMPLES)):
        assert _hypotheses(network, audio[:, None], PUBLIC, b"no key", speeds="near") == []


def test_a_speed_is_told_with_its_key_alone(
    network: Network, marked: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    played = soxr.resample(marked, SAMPLE_RATE * 1.02, SAMPLE_RATE)[:, None]
    assert _hypotheses(network, played, b"no key", b"nor this", speeds="near") == []
    monkeypatch.setattr(hypotheses, "CANDIDATE_P", 1e-9)
    assert _hypotheses(network, played, PUBLIC, speeds="near") != []


# Channels


@pytest.mark.slow
def test_as_much_is_kept_as_channels_need_and_memory_allows() -> None:
    for rate, channels, seconds in (
        (8_000, 1, SCREENED_SECONDS),
        (44_100, 2, SCREENED_SECONDS),
        (192_000, 8, MAX_EXCERPT_SAMPLES // (192_000 * 8)),
    ):
        loud = excerpt_for(rate, channels)
        loud.push(np.zeros((12 * rate, channels), np.float32))
        assert loud.samples.shape == (round(seconds * rate), channels)


def test_channels_that_hold_a_code_are_told(
    network: Network, marked: NDArray[np.float32], strings: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = strings[3 * SEGMENT_SAMPLES : 6 * SEGMENT_SAMPLES]
    beside = other * np.linalg.norm(marked) / np.linalg.norm(other)
    assert _hypotheses(network, np.stack([beside, marked], 1), b"no key", PUBLIC) == [Hypothesis((1,))]
    noise = 0.03 * marked.std() * np.random.default_rng(0).standard_normal((len(marked), 2))
    inverted = np.stack([marked, -marked], 1)
    # Each has noise of its own, so both together say more.
    assert _hypotheses(network, inverted + noise, b"no key", PUBLIC) == [Hypothesis((0, 1))]
    for channels in (inverted, np.stack([beside, marked], 1)):
        assert _hypotheses(network, channels, b"no key") == []
    monkeypatch.setattr(hypotheses, "CANDIDATE_P", 1e-9)
    for channels in (inverted, np.stack([beside, marked], 1)):
        assert _hypotheses(network, channels, b"no key", PUBLIC) != []


def test_channels_of_audio_that_was_played_faster_are_added_up(network: Network, marked: NDArray[np.float32]) -> None:
    faster = soxr.resample(marked, SAMPLE_RATE * 1.03, SAMPLE_RATE)
    *_, best = _hypotheses(network, np.stack([faster, -faster], 1), PUBLIC, speeds="near")
    assert best.channels == (0, 1)
    assert best.speed == pytest.approx(1.03, rel=0.02)


def test_a_hypothesis_selects_the_mix_or_channels() -> None:
    block = np.arange(12.0).reshape(4, 3)
    assert np.allclose(Hypothesis().select(block), block.mean(1, keepdims=True))
    assert np.array_equal(Hypothesis((2,)).select(block), block[:, 2:])
    assert np.array_equal(Hypothesis((0, 1, 2)).select(block), block)


def test_channels_are_asked_where_the_mix_does_not_say_it_all(
    marked: NDArray[np.float32], strings: NDArray[np.float32]
) -> None:
    for quieter in (1.0, 0.5, 0.0):
        assert not differ_from_mix(np.stack([marked, quieter * marked], 1))
    assert not differ_from_mix(marked[:, None])
    assert not differ_from_mix(np.zeros((3 * SEGMENT_SAMPLES, 2)))
    assert not differ_from_mix(
        np.stack([marked, 1e-3 * strings[3 * SEGMENT_SAMPLES : 6 * SEGMENT_SAMPLES]], 1)
    )  # next to nothing
    assert differ_from_mix(np.stack([marked, -marked], 1))
    assert differ_from_mix(np.stack([marked, np.roll(marked, 3)], 1))
    assert differ_from_mix(
        np.stack([marked, marked, marked + 0.1 * strings[3 * SEGMENT_SAMPLES : 6 * SEGMENT_SAMPLES]], 1)
    )


# How many there may be


@pytest.mark.parametrize("speeds", list(SPEED_GRID))
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_every_hypothesis_that_a_screening_can_yield_is_counted(
    network: Network, channels: int, speeds: Speeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    audio = np.random.default_rng(0).standard_normal((SAMPLE_RATE, channels))
    possible = {Hypothesis()}
    if channels > 1:
        assert differ_from_mix(audio)
        possible |= {Hypothesis(tuple(range(channels))), *(Hypothesis((channel,)) for channel in range(channels))}
    among = tuple(range(channels)) if channels > 1 else None
    possible |= {Hypothesis(among, speed) for speed in SPEED_GRID[speeds]}
    possible |= {Hypothesis(among, tempo=tempo) for tempo in TEMPO_GRID[speeds]}
    assert len(possible) == count_hypotheses(channels, speeds)

    # Whatever a correlation says, nothing else comes out.
    values = np.random.default_rng(1)
    seconds = np.zeros(1, np.int64), np.zeros(1)
    monkeypatch.setattr(hypotheses, "find_tracks", lambda *_: [Track(*seconds, 0.0, -20 * values.random())])
    monkeypatch.setattr(hypotheses, "ChunkFeatures", _NoFeatures)
    monkeypatch.setattr(
        hypotheses,
        "scan_speeds",
        lambda _, templates, speeds, tempos: 12 * values.random((len(speeds) + len(tempos), len(templates))),
    )
    screening = Screening(network, [network.channels(PUBLIC)], audio, SAMPLE_RATE, speeds)
    yielded = [list(screening.hypotheses()) for _ in range(20)]
    assert set().union(*yielded) <= possible
    assert {len(options) for options in yielded} <= set(range((channels > 1) + (speeds != "none") + 1))


class _NoFeatures:
    """In place of what the network makes of audio."""

    def __init__(self, network: Network, audio: NDArray[np.float32]) -> None:
        self.codes = np.zeros((audio.shape[1], 1, 1))
        self.code = self.codes.sum(0)
