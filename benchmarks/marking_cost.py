"""What reading back and looking for older marks add to the time of marking a file, as shares measured in one run.

    python benchmarks/marking_cost.py [--repeats 3] [--json docs/results/marking.json]

Marks repeated speech (one channel at 16 kHz, where marking is cheapest and the shares are largest) and music (stereo at
44.1 kHz) as files of several lengths and formats, with `Marker.embed_file` on one thread: alone, with the read-back,
and with the search for an older mark besides. Times are CPU times of the process.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw.audio.write import write_audio

SAMPLES = Path(ideaw.__file__).parent / "samples"
LENGTHS_SECONDS = (3, 12, 60)
FORMATS = (".wav", ".mp3", ".m4a")


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, of which the quickest counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results go")
    arguments = parser.parse_args()
    marker, rows = ideaw.load(threads=1), []
    sounds = {"speech": sf.read(SAMPLES / "speech.flac"), "music": sf.read(SAMPLES / "music.ogg")}
    with tempfile.TemporaryDirectory() as name:
        for audio, (samples, rate) in sounds.items():
            for seconds in LENGTHS_SECONDS:
                for extension in FORMATS:
                    path = Path(name) / f"in{extension}"
                    write_audio(path, repeat(samples, seconds * rate), rate)
                    costs = measure(marker, path, arguments.repeats)
                    rows.append({"audio": audio, "seconds": seconds, "format": extension[1:].upper()} | costs)
                    print(rows[-1], flush=True)
    if arguments.json:
        result = {"version": ideaw.__version__, "repeats": arguments.repeats, "rows": rows}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def repeat(samples: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """`(length, channels)` of samples, again and again."""
    columns = samples.reshape(len(samples), -1)
    return np.tile(columns, (length // len(columns) + 1, 1))[:length]


def measure(marker: ideaw.Marker, path: Path, repeats: int) -> dict[str, float]:
    """Seconds of CPU time of marking alone, and what reading back and then the search add."""
    times = {}
    for name, verify, over in (("alone", False, True), ("read back", True, True), ("searched", True, False)):
        spent = []
        for _ in range(repeats):
            began = time.process_time()
            marker.embed_file(path, path.with_name(f"out{path.suffix}"), "ab12", verify=verify, over=over)
            spent.append(time.process_time() - began)
        times[name] = min(spent)
    return {
        "mark": round(times["alone"], 4),
        "verify": round(times["read back"] - times["alone"], 4),
        "search": round(times["searched"] - times["read back"], 4),
    }


if __name__ == "__main__":
    main()
