"""Decisions are the same on other processors: packages run as an older one marks and reads what this one does.

Samples need not be equal: networks and transforms round otherwise there. Emulated, they take thirty times as long.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import ideaw
from ideaw.keys import PUBLIC
from ideaw.results import detection_as_json

EMULATOR = shutil.which("qemu-x86_64")

PROCESSORS = {"Haswell": {}, "Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"}}
"""Processors with AVX2 and with SSE4.2 at most → settings; OpenBLAS mistakes an emulated Nehalem for a newer one."""

PROGRAM = """
import json, sys
import numpy as np
import ideaw
from ideaw.results import detection_as_json
marker, host, marked = ideaw.load(threads=1), np.load("host.npy"), np.load("marked.npy")
np.save("there.npy", marker.embed(host, 16_000, "ab12"))
found = [marker.detect(samples, 16_000, speeds="none") for samples in (marked, host)]
print(json.dumps([detection_as_json(detection, {ideaw.keys.PUBLIC.fingerprint: None}) for detection in found]))
"""


@pytest.mark.slow
@pytest.mark.skipif(EMULATOR is None, reason="qemu-x86_64 is missing: install qemu-user")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="this machine's programs are not those of x86_64")
@pytest.mark.parametrize("processor", PROCESSORS)
def test_an_older_processor_decides_alike(processor: str, tmp_path: Path, speech: NDArray[np.float32]) -> None:
    marker = ideaw.load(threads=1)
    host = speech[:32_000]
    marked = marker.embed(host, 16_000, "ab12")
    for name, samples in (("host", host), ("marked", marked)):
        np.save(tmp_path / name, samples)
    command = [str(EMULATOR), "-cpu", processor, sys.executable, "-c", PROGRAM]
    settings = os.environ | PROCESSORS[processor] | {"OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = [marker.detect(samples, 16_000, speeds="none") for samples in (marked, host)]
    here = [detection_as_json(detection, {PUBLIC.fingerprint: None}) for detection in found]
    for there, expected in zip(json.loads(ran.stdout), here, strict=True):
        for decided in ("status", "message", "kind", "layer"):
            assert there[decided] == expected[decided]
        places = [[(part["start"], part["end"]) for part in answer["segments"]] for answer in (there, expected)]
        assert np.array(places[0]) == pytest.approx(np.array(places[1]), abs=0.02)
        assert np.log10(there["p_value"]) == pytest.approx(np.log10(expected["p_value"]), abs=1)
    assert [answer["status"] for answer in here] == ["found", "none"]
    assert marker.detect(np.load(tmp_path / "there.npy"), 16_000).message == "ab12"
