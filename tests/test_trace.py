"""The path of audio through the package stays short: modules passed and jumps between them, as tools/trace.py counts.

The ceilings are two thirds of what version 0.1 needed by the same count (20 modules and 234 jumps, 23 and 246, 19 and
390), and more where more is done than version 0.1 did. A level that hearing sets passes three modules more; where
nothing is found other speeds are tried by a method of their own (`response`, `speed_scan`); a marked file gets all that
surrounds the samples of its source (modules of `audio/containers`, most jumps from chunk to chunk), and files may be
bytes or pipes (`spool`, one module more on every way). What live streams and arrays share (`mixer`, `watermark`) are
modules of their own, as is what says in which layers a message is written or looked for. The deep layer is a room of
its own: eleven modules more where it is written, and most jumps where nothing is found. All that is drawn from a key is
drawn in one module (`modem/keyed`), for carriers and for both layers.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "tools" / "trace.py"
CEILINGS = {"mark": (42, 624), "mark at an SNR": (29, 334), "detect": (24, 244), "detect nothing": (33, 1_576)}


@pytest.fixture(scope="module")
def counts() -> dict[str, tuple[int, int]]:
    """(modules, jumps) by what was done; in a process of its own, since a profiler sees every thread."""
    run = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True)
    lines = re.findall(r"^(.+?) +(\d+) modules +(\d+) jumps$", run.stdout, re.MULTILINE)
    return {name: (int(modules), int(jumps)) for name, modules, jumps in lines}


@pytest.mark.slow
@pytest.mark.parametrize("what", CEILINGS)
def test_audio_passes_few_modules_with_few_jumps(counts: dict[str, tuple[int, int]], what: str) -> None:
    modules, jumps = counts[what]
    most_modules, most_jumps = CEILINGS[what]
    assert modules <= most_modules
    assert jumps <= most_jumps
