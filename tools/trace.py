"""Count the modules and the jumps between modules of marking a file, detecting its mark, and detecting none.

    python tools/trace.py [--source path/of/another/checkout/src] [--modules] [--pairs]

Three seconds of the packaged speech sample as a 16 kHz mono WAV file go through `Marker.embed_file`, then the marked
and the unmarked file through `Marker.detect_file`. A model with one thread is loaded and used once beforehand, so that
imports and ONNX sessions do not count. Counting rule: frames of other packages are left out; a *module* is one in
which a Python function runs; a *jump* is a control transfer between two modules of `ideaw`, that is a call *or* a
return (generators: resume or yield) between functions of different modules, in any thread. Version 0.1.0 had 20 modules
and 234 jumps, 23 and 246, 19 and 390.
"""

import argparse
import io
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import Any

CLIP_SECONDS = 3
MESSAGE = "ok"
SNR_DB = 38
DEFAULT_SOURCE = Path(__file__).parent.parent / "src"

Trace = tuple[set[str], Counter[tuple[str, str]]]
"""The modules passed, and how often control went from one module to another."""


def count_jumps(call: Callable[[], object], package: Path) -> Trace:
    """The modules of `package` (paths relative to it) that `call` passes, and the jumps between them."""
    prefix = f"{package}/"
    modules: set[str] = set()
    stacks: defaultdict[int, list[str]] = defaultdict(list)  # per thread: the modules of the active functions
    jumps: Counter[tuple[str, str]] = Counter()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event not in ("call", "return") or not path.startswith(prefix):
            return
        module, stack = path.removeprefix(prefix), stacks[threading.get_ident()]
        if event == "call":
            modules.add(module)
            if stack and stack[-1] != module:
                jumps[stack[-1], module] += 1
            stack.append(module)
        elif stack:
            stack.pop()
            if stack and stack[-1] != module:
                jumps[module, stack[-1]] += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return modules, jumps


def trace(source: Path = DEFAULT_SOURCE) -> dict[str, Trace]:
    """Modules and jumps of the package in `source`, by what was done: "mark" (by hearing), "mark at an SNR" …"""
    sys.path.insert(0, str(source.resolve()))
    import soundfile

    import ideaw

    package = Path(ideaw.__file__).parent
    if package.parent != source.resolve():
        raise SystemExit(f"ideaw comes from {package.parent}, not from {source.resolve()}")
    speech = resources.files("ideaw").joinpath("samples", "speech.flac").read_bytes()
    samples, rate = soundfile.read(io.BytesIO(speech))
    marker = ideaw.load(threads=1)
    with tempfile.TemporaryDirectory() as folder:
        plain, marked = Path(folder, "plain.wav"), Path(folder, "marked.wav")
        soundfile.write(plain, samples[: CLIP_SECONDS * rate], rate)
        steps: dict[str, Callable[[], object]] = {
            "mark": lambda: marker.embed_file(plain, marked, MESSAGE, verify=False, over=True),
            "mark at an SNR": lambda: marker.embed_file(plain, marked, MESSAGE, snr=SNR_DB, verify=False, over=True),
            "detect": lambda: marker.detect_file(marked),
            "detect nothing": lambda: marker.detect_file(plain),
        }
        for step in steps.values():
            step()
        assert marker.detect_file(marked).found
        assert not marker.detect_file(plain).found
        return {name: count_jumps(step, package) for name, step in steps.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, default=DEFAULT_SOURCE, help="the src folder of a checkout")
    parser.add_argument("--modules", action="store_true", help="name the modules as well")
    parser.add_argument("--pairs", action="store_true", help="count the jumps of each pair of modules as well")
    options = parser.parse_args()
    for name, (modules, jumps) in trace(options.source).items():
        print(f"{name:16}{len(modules):3} modules {jumps.total():4} jumps")
        if options.modules:
            print("  " + ", ".join(sorted(modules)))
        if options.pairs:
            print("\n".join(f"  {count:4} {start} → {end}" for (start, end), count in jumps.most_common()))


if __name__ == "__main__":
    main()
