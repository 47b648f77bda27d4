"""A broken file is read as far as it goes, or refused in one line: no crash, no hang, no memory for mere claims.

The reading is done by a process of its own, since what would go wrong goes wrong in C.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.mutants import mutants

READER = """
import json, resource, sys
from pathlib import Path
from ideaw.audio.read import open_audio, read_audio
from ideaw.errors import IdeawError

limit = 600 << 20  # of addresses, of which the libraries take 220 MB
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        with open_audio(path) as source:
            length = sum(len(block) for block in source.blocks(10_000))
        outcome = [length, read_audio(path).samples.shape[0]]
    except IdeawError as problem:
        outcome = str(problem)
    print(json.dumps([path.name, outcome]), flush=True)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))  # getrusage counts the parent too
print(json.dumps(["megabytes", int(peak.split()[1]) // 1024]))
"""


def read_all(folder: Path) -> dict[str, object]:
    """What became of each file in a folder."""
    done = subprocess.run([sys.executable, "-c", READER, str(folder)], capture_output=True, text=True, timeout=300)
    outcomes = dict(json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0, f"stopped after {list(outcomes)[-1:]}: {done.stderr[-2000:]}"
    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_broken_files_do_no_harm(tmp_path: Path, originals: dict[str, bytes], seed: int) -> None:
    count = 200
    for name, content in mutants(originals, count, seed):
        (tmp_path / name).write_bytes(content)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    outcomes = read_all(tmp_path)
    megabytes = outcomes.pop("megabytes")
    assert isinstance(megabytes, int)
    assert megabytes < 150
    assert len(outcomes) == count
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    for name, outcome in outcomes.items():
        if isinstance(outcome, str):
            assert name in outcome
            assert "\n" not in outcome
        else:
            in_blocks, whole = outcome  # type: ignore[misc]
            assert in_blocks == whole
    refused = sum(isinstance(outcome, str) for outcome in outcomes.values())
    assert 0.3 < refused / count < 0.9  # else the mutations break nothing, or everything at once


@pytest.mark.slow
def test_whole_files_are_read(tmp_path: Path, originals: dict[str, bytes]) -> None:
    for name, content in originals.items():
        (tmp_path / name).write_bytes(content)
    outcomes = read_all(tmp_path)
    del outcomes["megabytes"]
    assert not [outcome for outcome in outcomes.values() if isinstance(outcome, str)]
