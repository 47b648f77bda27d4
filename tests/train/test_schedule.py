"""What a recipe says about a step: level, learning rate, attacks, jitter, and the attacks' shares of a batch."""

import numpy as np
import pytest
from msgspec.structs import replace

from ideaw.train.recipe import Recipe
from ideaw.train.schedule import attack_rows, schedule_at

PLAIN = Recipe("plain", steps=1000, warm_up=100, learning_rate=1.0)


def test_the_level_rises_to_its_target_and_stays() -> None:
    recipe = replace(PLAIN, snr=38.0, snr_start=15.0, snr_ramp=0.5)
    levels = [schedule_at(recipe, step).snr for step in (0, 250, 500, 999)]
    assert levels == pytest.approx([15.0, 26.5, 38.0, 38.0])
    assert schedule_at(replace(recipe, snr_ramp=0.0), 0).snr == 38.0
    assert schedule_at(replace(recipe, snr=None), 400).snr is None


def test_attacks_begin_where_the_recipe_says() -> None:
    recipe = replace(PLAIN, attacks_from=0.3)
    assert [schedule_at(recipe, step).attacked for step in (0, 299, 300, 999)] == [False, False, True, True]
    assert schedule_at(PLAIN, 0).attacked


def test_jitter_grows_to_its_full_width() -> None:
    recipe = replace(PLAIN, jitter=125, jitter_ramp=0.5)
    assert [schedule_at(recipe, step).jitter for step in (0, 250, 500, 999)] == pytest.approx([0, 62.5, 125, 125])
    assert schedule_at(replace(recipe, jitter_ramp=0.0), 0).jitter == 125


def test_cosine_warms_up_holds_and_falls() -> None:
    rates = [schedule_at(PLAIN, step).learning_rate for step in range(1001)]
    assert rates[0] == pytest.approx(0.01)
    assert rates[99:301] == pytest.approx([1.0] * 202)
    assert rates[650] == pytest.approx(0.5)
    assert np.all(np.diff(rates[300:]) <= 0)
    assert rates[1000] == pytest.approx(0, abs=1e-12)
    assert schedule_at(replace(PLAIN, warm_up=0), 0).learning_rate == 1.0


def test_step_halves_every_tenth_of_each_training_stage() -> None:
    recipe = replace(PLAIN, schedule="step", attacks_from=0.5)
    rates = [schedule_at(recipe, step).learning_rate for step in (0, 49, 50, 499, 500, 549, 550, 999)]
    assert rates == [1, 1, 0.5, 0.5**9, 1, 1, 0.5, 0.5**9]


@pytest.mark.parametrize("begin", [0.0, 1.0])
def test_step_can_do_with_one_training_stage(begin: float) -> None:
    recipe = replace(PLAIN, schedule="step", attacks_from=begin)
    rates = [schedule_at(recipe, step).learning_rate for step in (0, 100, 999, 1000)]
    assert rates[:3] == [1, 0.5, 0.5**9]
    assert np.isfinite(rates[3])


def test_each_attack_has_its_share_of_the_batch() -> None:
    recipe = replace(PLAIN, attacks={"noise": 0.25, "mp3": 0.125, "echo": 0.125, "opus": 0.25})
    assert attack_rows(recipe, 16, 0.0) == [("noise", 4), ("mp3", 2), ("echo", 2), ("opus", 4)]
    assert attack_rows(recipe, 16, 0.999) == [("noise", 4), ("mp3", 2), ("echo", 2), ("opus", 4)]
    assert [attack_rows(recipe, 2, dither) for dither in (0.0, 0.3)] == [[("echo", 1)], [("mp3", 1)]]
    assert attack_rows(replace(PLAIN, attacks={}), 16, 0.5) == []


@pytest.mark.parametrize("number", [1, 2, 8, 100])
def test_over_a_run_every_attack_gets_its_share_however_small_the_batch(number: int) -> None:
    asked = {"mp3": 0.12, "noise": 0.07, "vorbis": 0.01, "stretch": 0.3, "echo": 0.5}
    recipe = replace(PLAIN, attacks=asked)
    seen = dict.fromkeys(asked, 0)
    for dither in (np.arange(1000) + 0.5) / 1000:
        plan = attack_rows(recipe, number, dither)
        assert all(rows > 0 for _, rows in plan)
        assert sum(rows for _, rows in plan) == number
        for name, rows in plan:
            seen[name] += rows
    # A grid of a thousand chances leaves each share uncertain by a thousandth or two of a segment.
    assert {name: count / 1000 for name, count in seen.items()} == pytest.approx(
        {name: share * number for name, share in asked.items()}, abs=0.003
    )
