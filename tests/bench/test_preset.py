"""Presets say what is done to audio: all of the package can be read, and every mistake is one line."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ideaw.attacks import catalogue
from ideaw.bench.protocols import preset
from ideaw.bench.protocols.preset import Choice, Step, UniformRange
from ideaw.bench.protocols.security import THREATS
from ideaw.cli.protocols import PRESETS
from ideaw.errors import IdeawError

HEAD = "title: T\nabout: A\nrate: 16000\nseconds: 2\nchannels: 1\nrows:\n"


def test_every_preset_of_the_package_is_a_command_and_can_be_read() -> None:
    assert set(preset.names()) == set(PRESETS)
    for name in preset.names():
        whole, quick = preset.load(name), preset.load(name, quick=True)
        assert {row.label for row in quick.rows} <= {row.label for row in whole.rows}
        assert whole.security == (name == "security")
        assert "{" not in "".join(row.label for row in whole.rows)


def test_the_protocols_have_the_published_strengths() -> None:
    loose, strict = preset.load("rawbench-loose"), preset.load("rawbench-strict")
    noises = [next(row for row in each.rows if "Gaussian" in row.label) for each in (loose, strict)]
    assert [row.steps[0].strengths["snr"] for row in noises] == [UniformRange(40, 60), UniformRange(20, 40)]
    gain = next(row for row in strict.rows if row.label.startswith("gain"))
    assert gain.steps == (Step("amplitude", {"gain": Choice((UniformRange(0.2, 0.5), UniformRange(1.5, 5)))}),)
    stretched = [row for row in preset.load("audiomarkbench").rows if row.label.startswith("time stretch")]
    assert [row.steps[0].strengths["factor"] for row in stretched] == [0.7, 0.9, 1.1, 1.3, 1.5]


def test_every_threat_has_a_row() -> None:
    assert sorted(str(row.threat) for row in preset.load("security").rows) == sorted(THREATS)


def test_lists_become_rows_and_draws_stay_within_their_ranges() -> None:
    made = preset.parse(
        "mine",
        HEAD
        + """
  - label: clean
  - {label: "MP3 {kbps}", attack: mp3, kbps: {each: [32, 48, 64]}}
  - label: "{snr} dB, then {gain}"
    chain: [{attack: noise, snr: {each: [10, 20]}}, {attack: amplitude, gain: {any: [0.5, {from: 2, to: 3}]}}]
""",
    )
    assert [row.label for row in made.rows][:4] == ["clean", "MP3 32", "MP3 48", "MP3 64"]
    assert [row.steps[0].strengths["snr"] for row in made.rows[4:]] == [10, 20]
    gains = [made.rows[4].steps[1].draw(np.random.default_rng(k))["gain"] for k in range(40)]
    assert all(gain == 0.5 or 2 <= float(gain) <= 3 for gain in gains)
    assert len(set(gains)) > 10
    quick = preset.parse(
        "mine", HEAD + '  - {label: "MP3 {kbps}", attack: mp3, kbps: {each: [32, 48, 64]}}\n', quick=True
    )
    assert [row.label for row in quick.rows] == ["MP3 32", "MP3 64"]


def test_a_chain_is_its_attacks_one_after_the_other(speech: NDArray[np.float32]) -> None:
    rows = "  - label: both\n    chain: [{attack: polarity}, {attack: crop, keep: 0.5}]\n"
    made = preset.parse("mine", HEAD + rows)
    half = made.attack(made.rows[0], speech[:, None], seed=1, number=2)
    assert half.shape == (len(speech) // 2, 1)
    assert (made.attack(made.rows[0], speech[:, None], seed=1, number=2) == half).all()
    assert not np.array_equal(made.attack(made.rows[0], speech[:, None], seed=1, number=3), half)
    kept = preset.parse("mine", "keep_length: true\n" + HEAD + rows)
    whole = kept.attack(kept.rows[0], speech[:, None], seed=1, number=2)
    assert (whole[: len(half)] == half).all()
    assert whole.shape == (len(speech), 1)
    assert not whole[len(half) :].any()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rows: [", "is not YAML"),
        ("- 1", "Expected `object`"),
        ("colour: red\n" + HEAD + "  - label: a", "unknown field `colour`; its fields are: title"),
        (HEAD.replace("rate: 16000\n", "") + "  - label: a", "missing required field `rate`"),
        (HEAD.replace("16000", "fast") + "  - label: a", "`$.rate`"),
        (HEAD + "  []", "has no rows"),
        (HEAD + "  - attack: mp3", "every row needs a label"),
        (HEAD + "  - label: a\n  - label: a", 'two rows "a"'),
        (HEAD + "  - {label: a, kbps: 3}", "neither an attack, nor a chain, nor a threat"),
        (HEAD + "  - {label: a, attack: mp4}", "row \"a\": there is no attack 'mp4'"),
        (HEAD + "  - {label: a, attack: mp3, kbsp: 3}", "has no strength 'kbsp'; it has: kbps"),
        (HEAD + "  - {label: a, attack: mp3, kbps: {some: 3}}", "must be a number"),
        (HEAD + "  - {label: a, attack: noise, snr: {from: 1, to: loud}}", "must be a number, not 'loud'"),
        (HEAD + "  - {label: a, chain: []}", "a chain is a list of attacks"),
        (HEAD + "  - {label: a, chain: [{attack: mp3}], kbps: 64}", "unknown field `kbps`"),
        (HEAD + "  - {label: a, threat: magic, should: none}", "no threat 'magic'; there are: transplanted"),
        (HEAD + "  - {label: a, threat: copied, should: fail}", "`$.should`"),
        (HEAD + "  - {label: a, threat: copied}", "missing required field `should`"),
        (HEAD + "  - label: a\n  - {label: b, threat: copied, should: none}", "it takes two presets"),
    ],
)
def test_a_mistake_is_one_line(text: str, says: str) -> None:
    with pytest.raises(IdeawError) as caught:
        preset.parse("mine", text)
    assert says in str(caught.value)
    assert str(caught.value).startswith("preset mine")
    assert "\n" not in str(caught.value)


def test_an_unknown_preset_is_one_line() -> None:
    with pytest.raises(IdeawError, match="there are: audiomarkbench, edits"):
        preset.load("paper-strict")


def test_new_attacks_are_in_some_preset() -> None:
    used = {step.attack for name in preset.names() for row in preset.load(name).rows for step in row.steps}
    assert used >= catalogue.MEASURED_ONLY
