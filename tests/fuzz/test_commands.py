"""The commands on broken files: an answer or exit code 2 with one line, and never a half-written file."""

from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from ideaw.audio.read import read_audio
from tests.cli.conftest import run
from tests.fuzz.mutants import mutants


@pytest.mark.slow
def test_broken_files_get_an_answer_or_one_line(tmp_path: Path, originals: dict[str, bytes]) -> None:
    seconds = {name: content for name, content in originals.items() if not name.startswith("plain.w")}
    target = tmp_path / "out.wav"
    codes = []
    for name, content in mutants(seconds, 20, seed=3):
        source = tmp_path / name
        source.write_bytes(content)
        found = run("detect", source)
        marked = run("embed", source, target, "-m", "hey")
        for ran in (found, marked):
            assert ran.code in (0, 1, 2)
            named = "left behind" in ran.err  # what has no place in a WAV file
            assert (ran.code == 2) == (ran.err.startswith("ideaw: ") and not named)
            assert ran.err.count("\n") == (ran.code == 2 or named)
        assert target.exists() == (marked.code == 0)
        assert source.read_bytes() == content
        if marked.code == 0:
            assert np.isfinite(read_audio(target).samples).all()
            target.unlink()
        source.unlink()
        assert not list(tmp_path.iterdir())
        codes.append(marked.code)
    assert 0 < codes.count(2) < len(codes)


@pytest.mark.slow
def test_samples_at_their_limits(tmp_path: Path, speech: np.ndarray) -> None:
    rng, source, target = np.random.default_rng(0), tmp_path / "in.wav", tmp_path / "out.wav"
    square, slower = (np.where(np.arange(48_000) // half % 2, 1.0, -1.0) for half in (36, 50))
    for samples, line in [
        (slower, "clipped away"),
        (square, "cannot be read back"),  # what clipping leaves is too little
        (square / 2, None),
        (1e9 * speech[:48_000], None),
        (rng.normal(0, 1e300, 48_000), "scale them down"),
        (rng.normal(0, 1e-310, 48_000), "silent"),
        (speech[:1], "at least 0.5 s"),
        (np.append(speech, np.nan), "NaN or infinite"),
        (np.append(-np.inf, speech), "NaN or infinite"),
    ]:
        sf.write(source, samples, 16_000, subtype="DOUBLE")
        ran = run("embed", source, target, "-m", "hey", "--layers", "fast")  # the deep one makes room below full scale
        if line is None:
            assert ran.code == 0
            assert run("detect", target).code == 0
            target.unlink()
        else:
            assert ran.code == 2
            assert line in ran.err
        assert list(tmp_path.iterdir()) == [source]
