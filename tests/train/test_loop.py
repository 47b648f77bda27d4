"""The loop: exact resuming, steps that cannot be taken, logs, a start from other weights, several processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import torch
import yaml
from msgspec.structs import replace
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from ideaw.errors import FileError, IdeawError
from ideaw.nets.blocks import ConvSubnet, DenseSubnet
from ideaw.nets.model import Ideaw
from ideaw.train import checkpoint
from ideaw.train.export import save_weights
from ideaw.train.loop import train
from ideaw.train.recipe import Recipe

from .conftest import OURS

Parts = dict[str, dict[str, Tensor]]


def _train(recipe: Recipe, folder: Path, out: Path, **more: object) -> dict[str, float]:
    return train(recipe, folder, out, log_every=1, validate_on=2, **more)  # type: ignore[arg-type]


def _load(out: Path) -> tuple[Parts, dict]:
    saved = checkpoint.load(out / "checkpoint")
    assert saved is not None
    return saved


def _different(a: Parts, b: Parts) -> list[str]:
    """Tensors that are not the same to the last bit."""
    assert {part: sorted(tensors) for part, tensors in a.items()} == {part: sorted(b[part]) for part in b}
    return [f"{part}: {name}" for part in a for name in a[part] if not torch.equal(a[part][name], b[part][name])]


def _learned(parts: Parts) -> Parts:
    """All that steps change for good: without what is on its way, and without moments that are still zero."""
    lasting = {part: tensors for part, tensors in parts.items() if part != "in_flight"}
    return {
        part: {name: tensor for name, tensor in tensors.items() if part in ("model", "average") or tensor.any()}
        for part, tensors in lasting.items()
    }


def _log(out: Path) -> list[dict]:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    lines = (out / "log.jsonl").read_text().splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


@contextmanager
def _poisoned() -> Iterator[None]:
    """Every subnet gives NaN, as one does whose weights have burst."""

    def spoil(module: nn.Module, inputs: tuple, output: Tensor) -> Tensor | None:
        return output * float("nan") if isinstance(module, ConvSubnet | DenseSubnet) else None

    hook = register_module_forward_hook(spoil)
    try:
        yield
    finally:
        hook.remove()


@pytest.mark.slow
def test_a_stopped_run_goes_on_exactly(recipe: Recipe, folder: Path, tmp_path: Path) -> None:
    _train(recipe, folder, tmp_path / "uninterrupted")
    # Stopped before the attacks and the balance block come in, and after.
    for stop in (1, 3, None):
        _train(recipe, folder, tmp_path / "stopped", stop_after=stop)
        if stop and recipe is OURS:
            assert ("in_flight" in _load(tmp_path / "stopped")[0]) == (stop == 3), "nothing was on its way to a codec"
    (uninterrupted, facts), (stopped, same_facts) = _load(tmp_path / "uninterrupted"), _load(tmp_path / "stopped")
    assert {"model", "average", "optimiser-exp_avg", "optimiser-exp_avg_sq", "optimiser-step"} <= set(uninterrupted)
    assert (
        ("discriminator" in uninterrupted) == ("discriminator-exp_avg" in uninterrupted) == (recipe.losses.identify > 0)
    )
    assert _different(uninterrupted, stopped) == []
    assert facts == same_facts
    assert facts["step"] == recipe.steps


@pytest.mark.slow
def test_another_seed_gives_other_weights(folder: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        _train(replace(OURS, seed=seed), folder, tmp_path / str(seed), stop_after=1)
    (one, _), (two, _) = (_load(tmp_path / str(seed)) for seed in (1, 2))
    assert "model: message_stage.blocks.0.to_host.nets.0.enter.weight" in _different(one, two)


@pytest.mark.slow
def test_a_step_that_is_not_finite_is_skipped_and_counted_and_changes_nothing(
    recipe: Recipe, folder: Path, tmp_path: Path
) -> None:
    _train(recipe, folder, tmp_path, stop_after=1)
    before, _ = _load(tmp_path)
    with _poisoned():
        _train(recipe, folder, tmp_path, stop_after=3)
    poisoned, facts = _load(tmp_path)
    assert _different(_learned(before), _learned(poisoned)) == []
    assert (facts["step"], facts["skipped"]) == (3, 2)
    assert [line["skipped"] for line in _log(tmp_path) if "skipped" in line] == [0, 1, 2]

    _train(recipe, folder, tmp_path, stop_after=4)
    after, facts = _load(tmp_path)
    for part in ("model", "average"):
        assert _different({part: poisoned[part]}, {part: after[part]}) != []
        assert all(tensor.isfinite().all() for tensor in after[part].values())
    assert (facts["step"], facts["skipped"], facts["averaged"]) == (4, 2, 2)


@pytest.mark.slow
def test_weights_that_have_burst_are_left_as_they_are(folder: Path, tmp_path: Path) -> None:
    bursting = replace(OURS, learning_rate=1e30, warm_up=1)
    _train(bursting, folder, tmp_path, stop_after=1)
    burst, _ = _load(tmp_path)
    _train(bursting, folder, tmp_path, stop_after=3)
    later, facts = _load(tmp_path)
    assert facts["skipped"] == 2
    assert _different(_learned(burst), _learned(later)) == []


@pytest.mark.slow
def test_logs_are_json_lines_and_tensorboard(recipe: Recipe, folder: Path, tmp_path: Path) -> None:
    validation = _train(recipe, folder, tmp_path, stop_after=2)
    *steps, last = _log(tmp_path)
    assert [line["step"] for line in steps] == [1, 2]
    for line in steps:
        assert {"loss", "message", "code", "snr", "learning_rate", "skipped", "segments_per_second"} <= set(line)
        assert 0 <= line["message"] <= 1
        assert line["learning_rate"] > 0
    assert last["step"] == 2
    assert last["valid_clean"] == pytest.approx(validation["clean"], rel=1e-5)
    assert {"valid_mp3", "valid_stretch"} <= set(last)
    (events,) = (tmp_path / "tensorboard").glob("events.out.tfevents.*")
    assert events.stat().st_size > 100


@pytest.mark.slow
def test_a_run_is_validated_and_saved_on_its_way(folder: Path, tmp_path: Path) -> None:
    _train(OURS, folder, tmp_path, stop_after=3, validate_every=2)
    assert [line["step"] for line in _log(tmp_path) if "valid_clean" in line] == [2, 3]


@pytest.mark.slow
def test_a_level_by_construction_is_the_level_that_is_logged(folder: Path, tmp_path: Path) -> None:
    _train(replace(OURS, snr_ramp=0.0, snr_spread=0.0), folder, tmp_path, stop_after=1)
    assert _log(tmp_path)[0]["snr"] == pytest.approx(30, abs=0.01)


@pytest.mark.slow
def test_training_teaches(folder: Path, tmp_path: Path) -> None:
    weak = replace(OURS.net, skip=0.1)
    _train(replace(OURS, net=weak, steps=15, attacks={}, jitter=0, snr_ramp=0.0), folder, tmp_path)
    losses = [line["loss"] for line in _log(tmp_path) if "loss" in line]
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


def test_time_that_is_up_ends_a_run_where_it_can_go_on(folder: Path, tmp_path: Path) -> None:
    _train(OURS, folder, tmp_path, minutes=0.0)
    assert _load(tmp_path)[1]["step"] == 0


@pytest.mark.slow
def test_a_run_may_go_on_with_a_batch_too_small_for_what_is_on_its_way(folder: Path, tmp_path: Path) -> None:
    coded = replace(OURS, attacks={"mp3": 0.75}, attacks_from=0.0)
    _train(coded, folder, tmp_path, stop_after=1)
    assert len(_load(tmp_path)[0]["in_flight"]["marked"]) == 3
    _train(replace(coded, batch=2), folder, tmp_path, stop_after=2)
    assert _load(tmp_path)[1]["step"] == 2


@pytest.mark.slow
def test_the_average_follows_the_weights(folder: Path, tmp_path: Path) -> None:
    saved = {}
    for stop in (1, 2):
        _train(replace(OURS, average=0.75), folder, tmp_path, stop_after=stop)
        saved[stop] = _load(tmp_path)[0]
    for name, first in saved[1]["average"].items():
        assert torch.allclose(first, saved[1]["model"][name], atol=1e-6)
        expected = 0.75 * first + 0.25 * saved[2]["model"][name]
        assert torch.allclose(saved[2]["average"][name], expected, atol=1e-6)


@pytest.mark.slow
def test_a_run_goes_on_that_was_saved_before_networks_had_a_choice_that_they_have_now(
    folder: Path, tmp_path: Path
) -> None:
    _train(OURS, folder, tmp_path, stop_after=1)
    path = tmp_path / "checkpoint" / "facts.json"
    facts = json.loads(path.read_text())
    del facts["recipe"]["net"]["headroom"]
    path.write_text(json.dumps(facts))
    _train(OURS, folder, tmp_path, stop_after=2)
    assert _load(tmp_path)[1]["step"] == 2


def test_a_folder_with_a_run_of_another_network_is_refused(folder: Path, tmp_path: Path) -> None:
    _train(OURS, folder, tmp_path, stop_after=1)
    with pytest.raises(IdeawError, match="another network"):
        _train(replace(OURS, net=replace(OURS.net, code_width=4)), folder, tmp_path)


@pytest.mark.slow
def test_a_run_may_begin_with_other_weights(folder: Path, tmp_path: Path) -> None:
    torch.manual_seed(5)
    given = Ideaw(OURS.net)
    (tmp_path / "model").mkdir()
    save_weights(given, tmp_path / "model")
    _train(OURS, folder, tmp_path / "one", stop_after=1, initial_weights=tmp_path / "model", minutes=0.0)
    model = _load(tmp_path / "one")[0]["model"]
    assert all(torch.equal(model[name], value.half().float()) for name, value in given.state_dict().items())

    weights = tmp_path / "one" / "checkpoint" / "model.safetensors"
    _train(OURS, folder, tmp_path / "two", initial_weights=weights, minutes=0.0)
    assert _different({"model": model}, {"model": _load(tmp_path / "two")[0]["model"]}) == []

    apart = replace(OURS, net=replace(OURS.net, shared=False))
    _train(apart, folder, tmp_path / "apart", initial_weights=weights, minutes=0.0)
    readers = {name: value for name, value in _load(tmp_path / "apart")[0]["model"].items() if "_reader." in name}
    assert readers
    assert all(torch.equal(model[name.replace("_reader.", "_stage.")], value) for name, value in readers.items())
    _train(apart, folder, tmp_path / "apart", stop_after=2)
    trained = _load(tmp_path / "apart")[0]["model"]
    assert any(not torch.equal(trained[name], trained[name.replace("_reader.", "_stage.")]) for name in readers)

    with pytest.raises(FileError, match="neither a model folder nor a file of weights"):
        _train(OURS, folder, tmp_path / "three", initial_weights=folder / "speech" / "0.wav")
    with pytest.raises(IdeawError, match="another network"):
        _train(replace(OURS, net=replace(OURS.net, code_width=4)), folder, tmp_path / "four", initial_weights=weights)


# One process of several: trains, and leaves the weights it ended with. The clocks of the ranks differ.
PROCESS = """
if __name__ == "__main__":  # the codecs' processes import this file too
    import os
    import sys
    from pathlib import Path

    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from ideaw.nets.build import build_dual_stage
    from ideaw.train.loop import train
    from ideaw.train.recipe import read_recipe

    recipe, data, out = map(Path, sys.argv[1:4])
    rank, chosen = int(os.environ["RANK"]), read_recipe(recipe)
    ended = {}

    def keep(optimiser, args, kwargs):
        weights = (p.detach().clone() for group in optimiser.param_groups for p in group["params"])
        ended.update(zip((name for name, _ in build_dual_stage(chosen.net).named_parameters()), weights, strict=True))

    register_optimizer_step_post_hook(keep)
    train(chosen, data, out, minutes=float(sys.argv[4 + rank]), log_every=1, validate_on=4)
    torch.save(ended, out / f"{rank}.pt")
"""


def _launch(recipe: Recipe, folder: Path, tmp_path: Path, minutes: tuple[float, float]) -> subprocess.CompletedProcess:
    script, given = tmp_path / "process.py", tmp_path / "recipe.yaml"
    script.write_text(PROCESS)
    given.write_text(yaml.safe_dump(msgspec.to_builtins(recipe)))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    arguments = [*map(str, (script, given, folder, tmp_path / "two", *minutes))]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=300, env=environment)


@pytest.mark.slow
def test_two_processes_train_one_network(folder: Path, tmp_path: Path) -> None:
    recipe = replace(OURS, steps=2, attacks_from=0.0)
    done = _launch(recipe, folder, tmp_path, (60, 60))
    assert done.returncode == 0, done.stderr
    shared, facts = _load(tmp_path / "two")
    for rank in range(2):
        ended = torch.load(tmp_path / "two" / f"{rank}.pt")
        assert _different({"model": ended}, {"model": shared["model"]}) == []
    assert (facts["step"], facts["skipped"]) == (2, 0)
    assert all(line["loss"] is not None for line in _log(tmp_path / "two") if "loss" in line)

    _train(recipe, folder, tmp_path / "one")
    alone, _ = _load(tmp_path / "one")
    alone_shapes, shared_shapes = (
        {part: {n: t.shape for n, t in ts.items()} for part, ts in p.items()} for p in (alone, shared)
    )
    assert alone_shapes | {"in_flight": None} == shared_shapes | {"in_flight": None}


@pytest.mark.slow
def test_processes_stop_together_though_their_clocks_differ(folder: Path, tmp_path: Path) -> None:
    done = _launch(OURS, folder, tmp_path, (60, 0))
    assert done.returncode == 0, done.stderr
    assert _load(tmp_path / "two")[1]["step"] == 0


def test_a_batch_that_processes_cannot_share_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(IdeawError, match="a multiple of 3"):
        _train(OURS, folder, tmp_path)
