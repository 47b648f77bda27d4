"""One system in a process of its own, for `speed.py`: loads it, then times what is asked for, line by line.

python speed_worker.py SYSTEM THREADS          with {"task": "embed", "file": "x.npy", "rate": 16000} on stdin
python speed_worker.py SYSTEM size             prints the bytes that it and all that it needs take

Networks whose weights would have to be downloaded are built with random ones: their speed is the same.
"""

import importlib.util
import json
import re
import resource
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

Task = Callable[[Any, int], float]
"""Works on samples `(n,)` or `(n, channels)` at a rate; what it took is to be multiplied by the result."""

PACKAGES = {"ideaw": "ideaw", "AudioSeal": "audioseal", "WavMark": "wavmark", "Perth": "perth"}
"""What is imported."""

DISTRIBUTIONS = {"Perth": ["resemble-perth", "torch", "torchaudio", "librosa", "pyrubberband"]}
"""What is installed, where that is not one distribution of the same name that lists what it needs."""

WINDOWS = 10
"""Of WavMark's decoder that are timed, its batch; it looks at twice as many in every second."""

CHUNKS = 2
"""Of WavMark's encoder that are timed, each of 1.1 seconds."""


def ideaw(threads: int) -> dict[str, Task]:
    import ideaw

    marker = ideaw.load(threads=threads)

    def embed(samples: Any, rate: int) -> float:
        marker.embed(samples, rate, "ab12")
        return 1.0

    def detect(samples: Any, rate: int) -> float:
        marker.detect(samples, rate)
        return 1.0

    def detect_at_speed(samples: Any, rate: int) -> float:
        marker.detect(samples, rate, speeds="none")
        return 1.0

    return {"embed": embed, "detect": detect, "detect at its speed": detect_at_speed}


def audioseal(threads: int) -> dict[str, Task]:
    import torch
    from audioseal.builder import AudioSealDetectorConfig, AudioSealWMConfig, create_detector, create_generator
    from audioseal.loader import AudioSeal, load_local_model_config
    from omegaconf import OmegaConf

    torch.set_num_threads(threads)

    def config(card: str, kind: type) -> Any:
        return AudioSeal.parse_config(OmegaConf.to_container(load_local_model_config(card)), kind)

    generator = create_generator(config("audioseal_wm_16bits", AudioSealWMConfig)).eval()
    detector = create_detector(config("audioseal_detector_16bits", AudioSealDetectorConfig)).eval()

    @torch.no_grad()
    def embed(samples: Any, rate: int) -> float:
        audio = torch.from_numpy(samples)[None, None]
        _ = audio + generator.get_watermark(audio, message=torch.randint(0, 2, (1, 16)))
        return 1.0

    @torch.no_grad()
    def detect(samples: Any, rate: int) -> float:
        detector.detect_watermark(torch.from_numpy(samples)[None, None])
        return 1.0

    return {"embed": embed, "detect": detect}


def wavmark(threads: int) -> dict[str, Task]:
    import numpy as np
    import torch
    import wavmark
    from wavmark.models import my_model

    torch.set_num_threads(threads)
    model = my_model.Model(16000, num_bit=32, n_fft=1000, hop_length=400, num_layers=8).eval()
    message = np.random.default_rng(0).integers(0, 2, 16)

    def embed(samples: Any, rate: int) -> float:
        length = round(CHUNKS * 1.1 * rate)
        wavmark.encode_watermark(model, samples[:length], message, min_snr=-1000, max_snr=1000)
        return len(samples) / length

    def detect(samples: Any, rate: int) -> float:
        step = rate // 20
        wavmark.decode_watermark(model, samples[: rate + WINDOWS * step])
        return (len(samples) - rate) // step / WINDOWS

    return {"embed": embed, "detect": detect}


def perth(threads: int) -> dict[str, Task]:
    import perth
    import torch

    torch.set_num_threads(threads)
    watermarker = perth.PerthImplicitWatermarker()

    @torch.no_grad()
    def embed(samples: Any, rate: int) -> float:
        watermarker.apply_watermark(samples, sample_rate=rate)
        return 1.0

    @torch.no_grad()
    def detect(samples: Any, rate: int) -> float:
        watermarker.get_watermark(samples, sample_rate=rate)
        return 1.0

    return {"embed": embed, "detect": detect}


def installed_bytes(system: str) -> int:
    """The size of a package's files and of all that it requires."""
    found: set[Path] = set()
    waiting, seen = list(DISTRIBUTIONS.get(system, [PACKAGES[system]])), set()
    while waiting:
        name = waiting.pop()
        try:
            known = distribution(name)
        except PackageNotFoundError:
            continue
        if known.metadata["Name"] not in seen:
            seen.add(known.metadata["Name"])
            found.update(Path(str(known.locate_file(file))).resolve() for file in known.files or ())
            waiting += [re.split(r"[^\w.-]", need)[0] for need in known.requires or () if "extra ==" not in need]
    spec = importlib.util.find_spec(PACKAGES[system])
    for folder in spec.submodule_search_locations or () if spec else ():
        found.update(path.resolve() for path in Path(folder).rglob("*"))
    return sum(path.stat().st_size for path in found if path.is_file() and "__pycache__" not in path.parts)


def main() -> None:
    """Answer one line with one line; what systems print goes to stderr."""
    system, what = sys.argv[1:]
    if what == "size":
        print(installed_bytes(system))
        return
    import numpy as np

    answers = sys.stdout
    with redirect_stdout(sys.stderr):
        tasks = globals()[PACKAGES[system]](int(what))
        print(json.dumps({"ready": True}), file=answers, flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            samples = np.load(asked["file"])
            wall, cpu = time.perf_counter(), time.process_time()
            times = tasks[asked["task"]](samples, asked["rate"])
            took = {"wall": times * (time.perf_counter() - wall), "cpu": times * (time.process_time() - cpu)}
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            print(json.dumps(took | {"peak": peak}), file=answers, flush=True)


if __name__ == "__main__":
    main()
