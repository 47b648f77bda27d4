"""From a run to a model folder: quiet, whole, readable, and graphs and engine do what torch does, on real audio."""

import dataclasses
import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from msgspec.structs import replace
from numpy.typing import NDArray
from torch import Tensor

from ideaw.audio.grid import HOP_SAMPLES, SEGMENT_SAMPLES
from ideaw.audio.hearing import AUDIBILITY_MEANING, DEFAULT_AUDIBILITY_DB
from ideaw.bench.rivals import LearnedCarriers, RivalNetwork, load_segment_marker
from ideaw.engine.segments import embed_segments, extract_segments
from ideaw.errors import FileError, IdeawError
from ideaw.keys import PUBLIC
from ideaw.models import DEFAULT_MODEL, model_folder
from ideaw.modem import carriers as numpy_carriers
from ideaw.modem.channel import KeyChannels
from ideaw.modem.fec import FORMAT_VERSION
from ideaw.nets.build import build_dual_stage, build_network
from ideaw.nets.carriers import Carriers
from ideaw.nets.config import NetConfig
from ideaw.nets.cost import count_multiply_adds, count_parameters
from ideaw.nets.level import level
from ideaw.nets.model import Ideaw
from ideaw.nets.stft import stft
from ideaw.quality.masking import masking
from ideaw.train import checkpoint, export
from ideaw.train.export import export_model, export_run, load_weights, save_weights
from ideaw.train.loop import train

from .conftest import OURS, THE_PAPERS

pytestmark = pytest.mark.slow

EXPORT = """
import sys
from importlib import resources
from pathlib import Path

from ideaw.train.export import export_run

export_run(Path(sys.argv[1]), Path(sys.argv[2]))
"""

NETS = {
    "ours": OURS.net,
    # With its random auxiliary signal no two passes are alike, and without shortcuts it reads nothing yet.
    "the paper's": replace(THE_PAPERS.net, auxiliary="zero", skip=0.3),
}


@dataclasses.dataclass(frozen=True)
class Exported:
    run: Path
    target: Path
    printed: str


@pytest.fixture(scope="module")
def exported(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A run of one step and its export, made in a process of its own so that all it prints is seen."""
    run, target = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("models") / "new"
    train(OURS, folder, run, stop_after=1, validate_on=4)
    command = [sys.executable, "-c", EXPORT, str(run), str(target)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, env=environment)
    return Exported(run, target, done.stdout + done.stderr)


@pytest.fixture(scope="module", params=NETS)
def made(request: pytest.FixtureRequest, exported: Exported, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model folders of both kinds: what was exported above, and an untrained network on spectra."""
    if request.param == "ours":
        return exported.target
    torch.manual_seed(4)
    target = tmp_path_factory.mktemp("made")
    export_model(build_dual_stage(NETS[request.param]), target, 30.0, {})
    return target


@pytest.fixture(scope="module")
def audio(speech: NDArray[np.float32], strings: NDArray[np.float32]) -> Tensor:
    """Two seconds of speech and two of music, (4, SEGMENT_SAMPLES)."""
    return torch.from_numpy(
        np.concatenate([speech[: 2 * SEGMENT_SAMPLES], strings[: 2 * SEGMENT_SAMPLES]]).reshape(4, SEGMENT_SAMPLES)
    )


def _apart(actual: NDArray[np.generic], expected: Tensor) -> float:
    """Largest difference relative to the largest value."""
    return float(np.abs(actual - expected.numpy()).max() / expected.abs().max())


def _torch_carriers(channels: KeyChannels) -> tuple[Carriers, Carriers]:
    """The engine's carriers of message and code, for torch."""

    def maps(carriers: numpy_carriers.Carriers) -> Tensor:
        return torch.from_numpy(carriers.stream(np.eye(carriers.slots, dtype=np.float32)))

    def both(carriers: numpy_carriers.Carriers) -> Carriers:
        learned = isinstance(carriers, LearnedCarriers)
        return Carriers(
            maps(carriers), maps(dataclasses.replace(carriers, write=carriers.read) if learned else carriers)
        )

    return both(channels.message.carriers), both(channels.code.carriers)


def test_nothing_is_printed(exported: Exported) -> None:
    assert exported.printed == ""


def test_the_folder_holds_six_files_that_everyone_may_read(exported: Exported) -> None:
    modes = {path.name: oct(path.stat().st_mode)[-3:] for path in exported.target.iterdir()}
    files = "card.json", "locate.onnx", "mark.onnx", "network.safetensors", "read.onnx", "response.npy"
    assert modes == dict.fromkeys(files, "644")


def test_the_card_has_the_runs_numbers(exported: Exported) -> None:
    saved = checkpoint.load(exported.run / "checkpoint")
    assert saved is not None
    model = Ideaw(OURS.net)
    assert json.loads((exported.target / "card.json").read_text()) == {
        "name": "6+3",
        "network": "6+3",
        "message_bits": 6,
        "code_bits": 3,
        "message_slots": 540,
        "code_slots": 540,
        "format_version": FORMAT_VERSION,
        "snr": 30.0,
        "audibility": DEFAULT_AUDIBILITY_DB,
        "audibility_means": AUDIBILITY_MEANING,
        "bins": 480,
        "context": OURS.net.context,
        "scrambled_by_code": False,
        "learned_carriers": False,
        "waveform_io": False,
        "shaping": OURS.net.shaping,
        "headroom": OURS.net.headroom,
        "parameters": count_parameters(model),
        "multiply_adds_per_second": count_multiply_adds(model),
        "trained": {
            "recipe": "ours",
            "steps": 1,
            "batch": saved[1]["recipe"]["batch"],
            "hours_of_audio": saved[1]["hours_of_audio"],
        },
    }


def test_the_shipped_cards_tell_the_networks_cost() -> None:
    weights = resources.files("ideaw").joinpath("weights")
    for folder in map(Path, map(str, weights.iterdir())):
        card = json.loads((folder / "card.json").read_text("utf-8"))
        model = load_weights(folder.with_name(card["network"]))
        assert card["parameters"] == count_parameters(model)
        assert card["multiply_adds_per_second"] == count_multiply_adds(model)


def test_the_weights_are_the_runs_average(exported: Exported) -> None:
    saved = checkpoint.load(exported.run / "checkpoint")
    assert saved is not None
    shipped = load_weights(exported.target).state_dict()
    assert sorted(shipped) == sorted(saved[0]["average"])
    assert all(torch.equal(value, saved[0]["average"][name].half().float()) for name, value in shipped.items())


@pytest.mark.parametrize(("batch", "frames"), [(1, 64), (3, 17), (2, 96)])
@torch.no_grad()
def test_each_graph_does_what_torch_does(made: Path, audio: Tensor, batch: int, frames: int) -> None:
    model = load_weights(made)
    cut = audio.flatten().unfold(0, frames * HOP_SAMPLES, SEGMENT_SAMPLES // 2)[:batch]
    spectrum = torch.view_as_real(stft(cut / level(cut)))
    width = model.config.components * model.config.bins
    streams = torch.randn(2, batch, frames, width, generator=torch.Generator().manual_seed(1))
    code, *state = model.locate(spectrum)
    expected = {
        "mark": ({"host": spectrum, "message": streams[0], "code": streams[1]}, [model.mark(spectrum, *streams)]),
        "locate": ({"received": spectrum}, [code, *state]),
        "read": (dict(zip(("host", "side", "found"), state, strict=True)), [model.read(*state)]),
    }
    for name, (inputs, outputs) in expected.items():
        session = onnxruntime.InferenceSession(made / f"{name}.onnx")
        actual_outputs = session.run(None, {port: tensor.numpy() for port, tensor in inputs.items()})
        for actual, expected_output in zip(actual_outputs, outputs, strict=True):
            assert actual.shape == expected_output.shape
            # The same single-precision weights, summed in another order.
            assert expected_output.numel() == 0 or _apart(actual, expected_output) < 1e-4


@torch.no_grad()
def test_the_engine_marks_and_reads_segments_as_torch_does(made: Path, audio: Tensor) -> None:
    network, model = load_segment_marker(made).network, load_weights(made)
    channels = network.channels(PUBLIC)
    carriers = _torch_carriers(channels)
    generator = np.random.default_rng(5)
    message, code = (generator.integers(0, 2, (4, bits)) for bits in (6, 3))
    marked = embed_segments(network, channels, audio.numpy(), message, code, 20.0)
    slots = (
        torch.from_numpy(channel.fec.symbols(bits))
        for channel, bits in ((channels.message, message), (channels.code, code))
    )
    expected_marked = model.embed(audio, *slots, 20.0, carriers)
    # The engine stays 0.0001 dB below; and both round, in another order.
    assert np.abs(marked - expected_marked.numpy()).max() < 1e-3 * float((expected_marked - audio).abs().max())

    read_message, read_code = extract_segments(network, channels, marked)
    expected_llrs = model.extract(torch.from_numpy(marked.astype(np.float32)), carriers)
    for llrs, channel, expected in zip(
        (read_message, read_code), (channels.message, channels.code), expected_llrs, strict=True
    ):
        decoded = channel.fec.bit_llrs(expected.numpy())
        assert np.abs(llrs - decoded).max() < 1e-3 * np.abs(decoded).max()
    assert np.array_equal(read_code > 0, code > 0)
    assert ((read_message > 0) == (message > 0)).mean() > 0.9


@torch.no_grad()
def test_learned_carriers_come_with_the_model_and_keyed_ones_do_not(made: Path) -> None:
    model, network = load_weights(made), load_segment_marker(made).network
    learned = model.config.carriers == "learned"
    assert (made / "carriers.safetensors").exists() == isinstance(network, RivalNetwork) == learned
    for stored, in_torch in zip(_torch_carriers(network.channels(PUBLIC)), model.carriers(), strict=True):
        if learned:  # keyed ones are a key's, and no others have them
            for way in ("write", "read"):
                assert _apart(getattr(stored, way).numpy(), getattr(in_torch, way)) < 1e-3  # stored in half precision
        else:
            assert not np.array_equal(stored.write[:4].numpy(), in_torch.write[:4])


def test_the_papers_random_signal_is_drawn_anew_in_every_pass(audio: Tensor) -> None:
    torch.manual_seed(4)
    graph = export._export_graph(build_dual_stage(THE_PAPERS.net).eval(), "locate")
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    spectrum = torch.view_as_real(stft(audio / level(audio))).numpy()
    one, two = (session.run(None, {"received": spectrum})[0] for _ in range(2))
    assert one.shape == (4, 64, 1000)
    assert not np.array_equal(one, two)


def test_shaping_headroom_and_level_may_be_given_anew(
    exported: Exported, tmp_path: Path, audio: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        export, "SPECTRUM_GRAPH_PORTS", {"mark": export.SPECTRUM_GRAPH_PORTS["mark"]}
    )  # the only one that these are in
    export_run(exported.run, tmp_path, snr=33.0, shaping=0.75, headroom=10.0)
    assert json.loads((tmp_path / "card.json").read_text())["snr"] == 33.0
    model = load_weights(tmp_path)
    assert model.config == replace(OURS.net, shaping=0.75, headroom=10.0)
    spectrum = torch.view_as_real(stft(audio / level(audio)))
    spectrum[:, 20:30] = 0  # silence is no reason for anything but silence
    streams = torch.randn(2, 4, 64, 480, generator=torch.Generator().manual_seed(1))
    inputs = {"host": spectrum.numpy(), "message": streams[0].numpy(), "code": streams[1].numpy()}
    with torch.no_grad():
        expected, before = (net.mark(spectrum, *streams) for net in (model, load_weights(exported.target)))
    (actual,) = onnxruntime.InferenceSession(tmp_path / "mark.onnx").run(None, inputs)
    assert _apart(actual, expected) < 1e-4
    assert _apart(actual, before) > 0.1
    assert not actual[:, 20:30].any()


@torch.no_grad()
def test_the_shipped_headroom_keeps_marks_nearer_to_the_masking_curve(speech: NDArray[np.float32]) -> None:
    seconds = torch.from_numpy(speech.reshape(-1, SEGMENT_SAMPLES).copy())
    bound = load_weights(Path(str(model_folder(DEFAULT_MODEL))))
    assert bound.config.headroom is not None
    free = build_network(replace(bound.config, headroom=None)).eval()
    free.load_state_dict(bound.state_dict())
    slots = (
        2.0
        * torch.randint(2, (2, len(seconds), bound.config.message_slots), generator=torch.Generator().manual_seed(1))
        - 1
    )
    measured = []
    for net in (free, bound):
        marked = net.embed(seconds, slots[0], slots[1], 38.0, net.carriers())
        measured.append([masking(host, mark) for host, mark in zip(seconds.numpy(), marked.numpy(), strict=True)])
    before, after = (np.mean([row.ratio for row in rows]) for rows in measured)
    assert after < before
    before, after = (np.mean([np.percentile(row.excess, 99) for row in rows]) for rows in measured)
    assert after < before


def test_the_mean_with_another_model_may_be_exported(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "SPECTRUM_GRAPH_PORTS", {"mark": export.SPECTRUM_GRAPH_PORTS["mark"]})
    torch.manual_seed(5)
    second = Ideaw(OURS.net)
    save_weights(second, tmp_path)
    export_run(exported.run, tmp_path / "mean", mean_with=tmp_path)
    of_run, of_model, mean = (
        load_weights(folder).state_dict() for folder in (exported.target, tmp_path, tmp_path / "mean")
    )
    for name, weight in mean.items():
        assert torch.allclose(weight, (of_run[name] + of_model[name]) / 2, rtol=2e-3, atol=1e-4), name
    save_weights(Ideaw(replace(OURS.net, message_width=OURS.net.message_width + 1)), tmp_path)
    with pytest.raises(IdeawError, match="same sizes"):
        export_run(exported.run, tmp_path / "none", mean_with=tmp_path)


@pytest.mark.parametrize("wrong", [-0.1, 2.5, float("nan")])
def test_a_shaping_or_headroom_that_is_none_is_refused(exported: Exported, tmp_path: Path, wrong: float) -> None:
    with pytest.raises(IdeawError, match="a power of 0 to 2"):
        export_run(exported.run, tmp_path / "model", shaping=wrong)
    with pytest.raises(IdeawError, match="0 to 100 dB"):
        export_run(exported.run, tmp_path / "model", headroom=100 * wrong)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "config", [*NETS.values(), replace(OURS.net, shared=False)], ids=[*NETS, "an extractor of its own"]
)
def test_weights_come_back_in_half_precision_with_their_configuration(tmp_path: Path, config: NetConfig) -> None:
    torch.manual_seed(1)
    model = build_dual_stage(config)
    save_weights(model, tmp_path)
    back = load_weights(tmp_path)
    assert back.config == config
    assert not back.training
    for name, value in back.state_dict().items():
        assert torch.equal(value, model.state_dict()[name].half().float())


def test_a_run_without_a_level_needs_one_for_its_export(folder: Path, tmp_path: Path) -> None:
    train(THE_PAPERS, folder, tmp_path / "run", minutes=0.0, validate_on=1)
    with pytest.raises(IdeawError, match="how strong"):
        export_run(tmp_path / "run", tmp_path / "model")
    with pytest.raises(IdeawError, match="works on magnitudes"):
        export_run(tmp_path / "run", tmp_path / "model", snr=30.0, shaping=0.5)
    with pytest.raises(IdeawError, match="works on magnitudes"):
        export_run(tmp_path / "run", tmp_path / "model", snr=30.0, headroom=50.0)


def test_what_is_no_run_or_no_model_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds no checkpoint"):
        export_run(tmp_path, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(FileError, match="not a model folder"):
        load_weights(tmp_path)
    (tmp_path / "network.safetensors").write_bytes(b"not weights")
    with pytest.raises(FileError, match="not a model folder"):
        load_weights(tmp_path)
