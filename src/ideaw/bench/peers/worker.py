"""The process of one system, which `peer.py` begins with that system's Python; it knows nothing of ideaw's packages.

python worker.py SYSTEM THREADS [WEIGHTS]       answers the lines of stdin
python worker.py SYSTEM size DISTRIBUTION…      prints the bytes that these and all that they need take
python worker.py SYSTEM version DISTRIBUTION…   prints the version of the first

Asked is {"task": "embed", "file": …, "to": …, "message": "0110…"}, {"task": "detect", "file": …}, or any task with
"timed": true, of which only the times are answered. Answered are times, peak memory, and what was found; or an error.
"""

import importlib
import importlib.util
import json
import os
import re
import resource
import sys
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any


def answer(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked, with the times that it cost apart from reading and writing files."""
    import soundfile

    samples, rate = soundfile.read(request["file"], dtype="float32", always_2d=True)
    task, timed = request["task"], request.get("timed", False)
    if not timed and not adapter.weights:
        return {"error": "its weights are not here; give their path"}
    arguments = (request["message"],) if "message" in request else (adapter.any_message(),) if task == "embed" else ()
    part, times = adapter.part(task, samples, rate) if timed else (samples, 1.0)
    wall, cpu = time.perf_counter(), time.process_time()
    result = getattr(adapter, task)(part, rate, *arguments)
    cost = {"wall": times * (time.perf_counter() - wall), "cpu": times * (time.process_time() - cpu)}
    cost["peak"] = _peak()
    if timed:
        return cost
    if task == "embed":
        subtype = "FLOAT" if request["to"].endswith(".wav") else None
        soundfile.write(request["to"], result, rate, subtype)
        return cost
    return {**cost, **result._asdict()}


def _peak() -> int:
    """Bytes that this process held at most. (What `getrusage` says begins with what its parent held.)"""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def installed_bytes(package: str, distributions: list[str]) -> int:
    """The size of a package's files and of all that some distributions require."""
    paths: set[Path] = set()
    pending, seen = list(distributions), set()
    while pending:
        name = pending.pop()
        try:
            package_info = distribution(name)
        except PackageNotFoundError:
            continue
        if package_info.metadata["Name"] not in seen:
            seen.add(package_info.metadata["Name"])
            paths.update(Path(str(package_info.locate_file(file))).resolve() for file in package_info.files or ())
            pending += [re.split(r"[^\w.-]", need)[0] for need in package_info.requires or () if "extra ==" not in need]
    spec = importlib.util.find_spec(package)
    for folder in spec.submodule_search_locations or () if spec else ():
        paths.update(path.resolve() for path in Path(folder).rglob("*"))
    return sum(path.stat().st_size for path in paths if path.is_file() and "__pycache__" not in path.parts)


def main() -> None:
    """Answer one line with one line; what systems print themselves goes to stderr."""
    system, what, *more = sys.argv[1:]
    if what == "size":
        print(installed_bytes(system, more))
        return
    if what == "version":
        print(distribution(more[0]).version)
        return
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    adapter = importlib.import_module(f"adapters.{system}").adapter(int(what), *more)
    print(json.dumps({"bits": adapter.bits}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            reply = answer(adapter, json.loads(line))
        except Exception as problem:  # whatever a system raises is its answer
            reply = {"error": f"{type(problem).__name__}: {problem}".splitlines()[0]}
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main()
