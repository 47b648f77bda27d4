"""Clips of synthetic speech: sentences that Debian's espeak-ng reads, with the digital silence that recordings lack.

python benchmarks/synthetic_clips.py clips
"""

import argparse
import itertools
import subprocess
from pathlib import Path

VOICES = ("en-us", "en-gb", "de", "fr", "es")
SPEEDS_WPM = (130, 175)
"""Words per minute."""

TEXTS = (
    "The boat left the harbour at six. Nobody spoke. Then, far out, a light: once, twice, and it was gone.",
    "Please stand clear of the doors. This train stops at every station, and the next one is the last.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write clips of synthetic speech.")
    parser.add_argument("out", type=Path, help="the folder to write into")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for number, (voice, speed, text) in enumerate(itertools.product(VOICES, SPEEDS_WPM, TEXTS)):
        target = out / f"speech-{number:02}-{voice}-{speed}.wav"
        subprocess.run(["espeak-ng", "-v", voice, "-s", str(speed), "-w", target, text], check=True)
    print(f"{out}: {number + 1} clips")


if __name__ == "__main__":
    main()
