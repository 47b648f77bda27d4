"""How many marks are found at other speeds, without an option or with `--speeds`, plain and after MP3.

    python benchmarks/speeds.py CLIPS [--limit 24] [--seconds 10] [--rate 44100] [--channels 2] [--speeds all]
                                      [--tempo atempo]

Every clip under the folder CLIPS is marked once, played faster or slower by resampling, and searched. A message counts
where it is right and the answer's speed is within 0.5 % of the true one. CPU time is that of all searches of a row.
With --tempo the pitch stays, by ffmpeg's `atempo` or `rubberband`, or by the phase vocoder of the attacks; the last
column counts the answers whose longest segment has at least nine tenths of the audio.
"""

import argparse
import subprocess
import time
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

import ideaw
from ideaw.attacks import catalogue
from ideaw.bench.corpus import is_loud, list_audio_files, read_clip

SPEEDS = (0.8, 0.85, 0.9, 0.95, 1.05, 1.1, 1.2, 1.25)

TEMPOS = (0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.25)

MP3_KBPS = 96

MESSAGE = "ab12"

MAX_SPEED_ERROR = 0.005
"""Relative error of the speed that is told, beyond which an answer does not count."""

MIN_SHARE_MARKED = 0.9
"""Share of the audio that the longest segment has, where the mark was found as a whole."""


def main() -> None:
    """Print a row for every speed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("clips", type=Path)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=int, default=16_000)
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--speeds", choices=("none", "near", "all"))
    parser.add_argument("--tempo", choices=("atempo", "rubberband", "vocoder"))
    arguments = parser.parse_args()
    options = {} if arguments.speeds is None else {"speeds": arguments.speeds}
    marker = ideaw.load(threads=1)
    paths = list_audio_files(arguments.clips, arguments.limit)
    clips = [read_clip(path, arguments.seconds, arguments.rate, arguments.channels) for path in paths]
    marked = [marker.embed(clip, arguments.rate, MESSAGE) for clip in clips if is_loud(clip)]
    print(f"{len(marked)} clips of {arguments.seconds:g} s, {arguments.channels} channels at {arguments.rate} Hz")
    if arguments.tempo:
        _print_tempos(marker, marked, arguments.rate, arguments.tempo, options)
        return
    print("speed  plain  right speed  MP3 96  right speed  CPU")
    for speed in SPEEDS:
        began, cells = time.process_time(), []
        for kbps in (None, MP3_KBPS):
            answers = [
                marker.detect(_played(clip, arguments.rate, speed, kbps), arguments.rate, **options) for clip in marked
            ]
            right = [answer for answer in answers if answer.message == MESSAGE]
            told = [answer for answer in right if abs(answer.speed / speed - 1) < MAX_SPEED_ERROR]
            cells += [len(right), len(told)]
        print(f"{speed:5.2f} {'{:6} {:12} {:7} {:12}'.format(*cells)} {time.process_time() - began:5.1f} s", flush=True)


def _played(clip: NDArray[np.float32], rate: int, speed: float, kbps: int | None) -> NDArray[np.float32]:
    """`(n, channels)` played so many times as fast and, if that is asked for, after MP3 of both channels together."""
    played = soxr.resample(clip, rate * speed, rate).astype(np.float32)
    return played if kbps is None else catalogue.run("mp3", played, rate, kbps=kbps)


def _print_tempos(
    marker: ideaw.Marker, marked: list[NDArray[np.float32]], rate: int, tool: str, options: dict[str, str]
) -> None:
    print("tempo  right  right tempo  as a whole  CPU")
    for tempo in TEMPOS:
        stretched = [_stretched(clip, rate, tempo, tool) for clip in marked]
        began = time.process_time()
        answers = [(clip, marker.detect(clip, rate, **options)) for clip in stretched]
        seconds = time.process_time() - began
        right = [(clip, answer) for clip, answer in answers if answer.message == MESSAGE]
        told = [answer for _, answer in right if abs(answer.tempo / tempo - 1) < MAX_SPEED_ERROR]
        lengths = [max([part.end - part.start for part in answer.segments], default=0.0) for _, answer in right]
        whole = sum(
            length > MIN_SHARE_MARKED * len(clip) / rate for (clip, _), length in zip(right, lengths, strict=True)
        )
        print(f"{tempo:5.2f} {len(right):6} {len(told):12} {whole:11} {seconds:5.1f} s", flush=True)


def _stretched(clip: NDArray[np.float32], rate: int, tempo: float, tool: str) -> NDArray[np.float32]:
    """`(n,)` or `(n, channels)` played so many times as fast at the same pitch."""
    if tool == "vocoder":
        return catalogue.run("tempo", clip, rate, factor=tempo)
    sound = ["-f", "f32le", "-ar", str(rate), "-ac", str(1 if clip.ndim == 1 else clip.shape[1])]
    how = f"{tool}={tempo}" if tool == "atempo" else f"{tool}=tempo={tempo}"
    command = ["ffmpeg", "-v", "error", *sound, "-i", "-", "-af", how, *sound, "-"]
    made = subprocess.run(command, input=clip.astype("<f4").tobytes(), capture_output=True, check=True).stdout
    return np.frombuffer(made, "<f4").reshape(-1, *clip.shape[1:]).copy()


if __name__ == "__main__":
    main()
