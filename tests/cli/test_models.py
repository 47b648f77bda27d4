"""`models`: what is packaged, and its cards."""

import json
from importlib import resources
from pathlib import Path

import ideaw
from ideaw.audio.hearing import AUDIBILITY_MEANING
from ideaw.cli.models import _row
from tests.cli.conftest import run


def test_the_packaged_models_are_listed() -> None:
    rows = run("models").out.splitlines()
    for name in ideaw.model_names():
        card = ideaw.load(name).card
        (row,) = (row for row in rows if row.split()[0] == name)
        assert f"{card.message_bits} + {card.code_bits}" in row
        assert f" {card.audibility:g} dB {card.snr:g} dB {card.network} " in " ".join(row.split())
        assert f"{sum(card.facts['parameters'].values()) / 1e6:.2f} M" in row
        assert f"{card.facts['multiply_adds_per_second']['embed'] / 1e9:.2f} / " in row
    assert max(map(len, rows)) <= 100
    assert [card["name"] for card in json.loads(run("models", "--json").out)] == ideaw.model_names()


def test_a_card_is_printed_whole() -> None:
    file = resources.files("ideaw").joinpath("weights", "46+10", "card.json").read_text()
    assert json.loads(run("models", "46+10", "--json").out) == json.loads(file)
    lines = run("models", "46+10").out.splitlines()
    assert "message bits: 46" in lines
    assert f"audibility means: {AUDIBILITY_MEANING}" in lines
    assert "scrambled by code: False" in lines
    assert len(lines) >= len(json.loads(file))


def test_accuracy_is_shown_where_the_card_gives_it(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    packaged = resources.files("ideaw").joinpath("weights", "46+10")
    for entry in packaged.iterdir():
        (folder / entry.name).write_bytes(entry.read_bytes())
    card = json.loads((folder / "card.json").read_text()) | {"segments": {"clean": 99.98, "CP": 99.1}}
    (folder / "card.json").write_text(json.dumps(card))
    assert "  CP: 99.1" in run("models", folder).out.splitlines()
    assert _row(ideaw.load(folder).card)[-1] == "99.10–99.98 %"


def test_an_unknown_model_is_one_line() -> None:
    ran = run("models", "7+7")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith('ideaw: there is no model "7+7"; packaged: ')
