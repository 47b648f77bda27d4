"""Recipes: those in the repository load, and a wrong one is expected in one line what is wrong."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ideaw.errors import IdeawError
from ideaw.nets.config import PAPER_NET, NetConfig
from ideaw.train.recipe import Losses, Recipe, read_recipe
from ideaw.train.schedule import check_recipe

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_repositorys_recipes_load(path: Path) -> None:
    recipe = read_recipe(path)
    assert recipe.name == path.stem
    check_recipe(recipe)


def test_the_default_recipe_trains_the_default_network() -> None:
    (path,) = (path for path in RECIPES if path.stem == "46+10")
    # Residuals follow the envelope as much as is heard least; the exporter can choose another power.
    assert replace(read_recipe(path).net, shaping=NetConfig().shaping) == NetConfig()


def test_the_papers_recipe_is_the_paper() -> None:
    (path,) = (path for path in RECIPES if path.stem == "paper")
    recipe = read_recipe(path)
    assert recipe.net == PAPER_NET
    assert (recipe.steps, recipe.attacks_from, recipe.snr) == (200_000, 0.5, None)
    assert recipe.losses == Losses("squared", message=1.0, code=1.0, first_stage=1.0, perceptual=0.1, identify=0.1)
    assert (recipe.optimiser, recipe.learning_rate, recipe.betas) == ("adam", 1e-5, (0.9, 0.99))
    assert sorted(recipe.attacks) == sorted(
        ["noise", "lowpass", "mp3", "quantise", "dropout", "resample", "amplitude", "stretch"]
    )


def test_fields_may_be_given_anew(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("steps: 10\nnet: {message_bits: 5}\nbetas: [0.8, 0.9]\n")
    assert read_recipe(path, steps=3, batch=None) == Recipe(
        "mine", net=NetConfig(message_bits=5), steps=3, betas=(0.8, 0.9)
    )


def test_a_recipe_may_say_only_what_differs_from_another(tmp_path: Path) -> None:
    (tmp_path / "first.yaml").write_text("steps: 10\nnet: {message_bits: 5, squeeze: 12}\nattacks: {mp3: 0.5}\n")
    (tmp_path / "second.yaml").write_text("based_on: first\nnet: {message_bits: 6}\nlosses: {code: 0.25}\n")
    (tmp_path / "third.yaml").write_text("based_on: second\nattacks: {noise: 0.5}\n")
    assert read_recipe(tmp_path / "third.yaml", batch=3) == Recipe(
        "third",
        net=NetConfig(message_bits=6, squeeze=12),
        steps=10,
        batch=3,
        losses=Losses(code=0.25),
        attacks={"noise": 0.5},
    )


def test_a_recipe_based_on_itself_or_on_none_is_refused(tmp_path: Path) -> None:
    for name, base in (("one", "two"), ("two", "one"), ("three", "missing"), ("four", "[1]")):
        (tmp_path / f"{name}.yaml").write_text(f"based_on: {base}")
    for name, expected in (
        ("one", "based on itself"),
        ("three", "missing.yaml is not a readable"),
        ("four", "readable"),
    ):
        with pytest.raises(IdeawError, match=expected):
            read_recipe(tmp_path / f"{name}.yaml")


def test_each_ablation_changes_one_thing_of_the_reference() -> None:
    made = {path.stem.removeprefix("ablation-"): read_recipe(path) for path in RECIPES if "ablation" in path.stem}
    reference = made.pop("reference")
    default = read_recipe(RECIPES[0].with_name("46+10.yaml"))
    assert reference == replace(default, name=reference.name, steps=2400, snr_ramp=0.5)
    assert made.pop("discriminator").losses == replace(reference.losses, identify=0.1)
    single = replace(reference.net, message_bits=56, message_slots=120, message_blocks=6, code_bits=0, code_slots=0)
    nets = {"no-balance": replace(reference.net, balance_blocks=0), "single-stage": replace(single, code_blocks=0)}
    assert made == {name: replace(reference, name=f"ablation-{name}", net=net) for name, net in nets.items()}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("stpes: 3", "unknown field `stpes`"),
        ("net: {wdith: 3}", "unknown field `wdith` - at `$.net`"),
        ("steps: [1, 2", "not a readable recipe"),
        ("just words", "must hold the fields"),
        ("", "must hold the fields"),
        ("\xff\xfe\x00", "not a readable recipe"),
        ("steps: many", "Expected `int`, got `str` - at `$.steps`"),
        ("steps: 1.5", "Expected `int`, got `float` - at `$.steps`"),
        ("steps: true", "Expected `int`, got `bool` - at `$.steps`"),
        ("learning_rate: 1e-5", "at `$.learning_rate` (YAML reads 1e-5 as a text: write 1.0e-5)"),
        ("optimiser: sgd", "Invalid enum value 'sgd' - at `$.optimiser`"),
        ("snr: loud", "at `$.snr`"),
        ("net: 3", "Expected `object`, got `int` - at `$.net`"),
        ("net:", "got `null` - at `$.net`"),
        ("betas: [0.9]", "Expected `array` of length 2, got 1 - at `$.betas`"),
        ("attacks: {mp3: much}", "at `$.attacks[...]`"),
    ],
)
def test_what_is_not_a_recipe_is_told_in_one_line(tmp_path: Path, content: str, expected: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(content, "latin-1")
    with pytest.raises(IdeawError) as caught:
        read_recipe(path)
    message = str(caught.value)
    assert expected in message
    assert message.startswith(str(path))
    assert "\n" not in message


def test_a_missing_recipe_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(IdeawError, match="No such file"):
        read_recipe(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (Recipe("x", attacks={"mp4": 0.1}), "unknown attack 'mp4'; known are amplitude, "),
        (Recipe("x", attacks={"mp3": 0.7, "noise": 0.5}), "add up to 1.2"),
        (Recipe("x", attacks={"mp3": -0.1}), "below 0"),
        (Recipe("x", steps=0), "1 or more"),
        (Recipe("x", batch=0), "1 or more"),
        (Recipe("x", net=NetConfig(message_bits=99)), "99 bits of message in 98 slots"),
        (Recipe("x", net=NetConfig(carriers="learned")), "no FEC has 46 bits of message in 98 slots"),
        (Recipe("x", net=NetConfig(code_bits=0)), "0 bits of code"),
        (Recipe("x", net=NetConfig(code_bits=0, code_slots=0)), "0 bits of code"),
        (Recipe("x", net=NetConfig(code_blocks=0)), "without a code its bits and slots are 0 too"),
        (Recipe("x", net=NetConfig(message_blocks=0)), "a stage needs 1 block"),
        (Recipe("x", net=NetConfig(squeeze=7)), "a squeeze of 7 leaves 497 bins; tiles need a multiple of 2"),
    ],
)
def test_a_recipe_that_cannot_be_trained_is_refused(recipe: Recipe, expected: str) -> None:
    with pytest.raises(IdeawError, match=expected):
        check_recipe(recipe)
