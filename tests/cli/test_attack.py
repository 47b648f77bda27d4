"""`attack`: every attack by its name, with the strengths asked for."""

from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from ideaw.attacks.catalogue import ATTACKS, OTHERS_PARTS
from tests.cli.conftest import run, run_process


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_changes_a_file(tmp_path: Path, spoken: Path, name: str) -> None:
    source, target = tmp_path / "in.wav", tmp_path / "out.wav"
    speech = sf.read(spoken)[0]
    sf.write(source, np.stack([speech, speech[::-1]], 1), 16_000)  # some attacks are about channels
    ran = run("attack", name, source, target)
    if name in OTHERS_PARTS and ran.code == 2:
        pytest.skip(ran.err)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{target}: in.wav after {name}")
    assert not np.array_equal(sf.read(source)[0], sf.read(target)[0])


def test_strengths_and_seed_are_used(tmp_path: Path, spoken: Path) -> None:
    before = sf.read(spoken)[0]
    run("attack", "amplitude", spoken, tmp_path / "half.wav", "-s", "gain=0.5")
    assert np.allclose(sf.read(tmp_path / "half.wav")[0], before / 2, atol=1e-4)
    run("attack", "crop", spoken, tmp_path / "a.wav", "-s", "keep=0.25", "--seed", "1")
    run("attack", "crop", spoken, tmp_path / "b.wav", "-s", "keep=0.25", "--seed", "1")
    run("attack", "crop", spoken, tmp_path / "c.wav", "-s", "keep=0.25", "--seed", "2")
    first, again, other = ((tmp_path / f"{name}.wav").read_bytes() for name in "abc")
    assert first == again != other
    assert len(sf.read(tmp_path / "a.wav")[0]) == 24_000
    run("attack", "lowpass", spoken, tmp_path / "d.wav", "-s", "kind=steep", "-s", "cutoff=3000")
    power = np.abs(np.fft.rfft(sf.read(tmp_path / "d.wav")[0])) ** 2
    above = np.fft.rfftfreq(len(before), 1 / 16_000) > 4_000
    assert power[above].sum() < 1e-4 * power.sum()
    ran = run("attack", "lowpass", spoken, tmp_path / "e.wav", "-s", "zero_phase=true")
    assert ran.code == 0
    assert "zero_phase=true" in ran.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nonsense", "IN", "OUT"), 'no attack "nonsense"; there are: noise'),
        (("noise", "IN"), "--list"),
        ((), "--list"),
        (("noise", "IN", "OUT", "-s", "loud"), "key=value"),
        (("noise", "IN", "OUT", "-s", "gain=2"), "snr, tilt"),
        (("noise", "IN", "OUT", "-s", "snr=much"), "must be a number"),
        (("mp3", "IN", "OUT", "-s", "kbps=64.5"), "a whole number"),
    ],
)
def test_what_cannot_be_done_is_one_line(tmp_path: Path, spoken: Path, arguments: tuple[str, ...], says: str) -> None:
    places = {"IN": spoken, "OUT": tmp_path / "out.wav"}
    ran = run("attack", *(places.get(argument, argument) for argument in arguments))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err
    assert not (tmp_path / "out.wav").exists()


@pytest.mark.slow
def test_the_list_is_complete() -> None:
    rows = run_process("attack", "--list").out.splitlines()
    for attack in ATTACKS.values():
        (row,) = (row for row in rows if row.split()[0] == attack.name)
        assert attack.label in row
        assert attack.summary in row
        assert all(f"{name}=" in row for name in attack.strengths)
