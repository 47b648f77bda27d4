"""Threats by who has the software and no key: the extractor tells the pattern of any mark, the embedder writes it.

They are made with our network, so they are tried on our marks alone. A pattern is learned from the clip's own seconds;
that these begin at its first sample is known to the attacker here, who could find it by trying.
"""

import numpy as np
from numpy.typing import NDArray

from ideaw.attacks import catalogue
from ideaw.audio.blocks import to_network_mono
from ideaw.bench.corpus import Samples
from ideaw.bench.forgery import COMBINED_PATTERNS
from ideaw.bench.protocols.case import Case, clip_to_full_scale, foreign_key, unrelated_host
from ideaw.bench.protocols.system import WatermarkSystem
from ideaw.bench.transplant import Pattern, learn, write

LEAKED_KBPS = 128
"""Bitrate of a marked copy that got out, in kbit/s."""


def transplanted(system: WatermarkSystem, number: int) -> Case:
    """The pattern of the marked clip is written into other audio."""
    clip = system.clip(number)
    return Case(_write(system, _learn(system, clip.marked), unrelated_host(system, number)), (clip.message,))


def transplanted_from_mp3(system: WatermarkSystem, number: int) -> Case:
    """The same from an MP3 of the marked clip."""
    clip = system.clip(number)
    heard = catalogue.run("mp3", clip.marked, system.rate, kbps=LEAKED_KBPS)
    return Case(_write(system, _learn(system, heard), unrelated_host(system, number)), (clip.message,))


def erased(system: WatermarkSystem, number: int) -> Case:
    """The negative of its own pattern is written over the marked clip."""
    clip = system.clip(number)
    return Case(_write(system, -_learn(system, clip.marked), clip.marked), (clip.message,))


def combined(system: WatermarkSystem, number: int) -> Case:
    """Of clips that one secret key marked with known messages, patterns are multiplied to one of another word."""
    count, owner = len(system.settings.paths), foreign_key(system, number)
    messages = tuple(system.message(number, draw) for draw in range(COMBINED_PATTERNS))
    hosts = [system.host((number + turn) % count) for turn in range(COMBINED_PATTERNS)]
    patterns = [
        _learn(system, system.mark(host, message, owner)) for host, message in zip(hosts, messages, strict=True)
    ]
    message = np.prod([pattern.message for pattern in patterns], 0)
    code = np.sign(np.sum([pattern.code for pattern in patterns], 0))
    return Case(_write(system, Pattern(message, code), hosts[0]), messages, owner)


def _learn(system: WatermarkSystem, marked: NDArray[np.floating]) -> Pattern:
    assert system.network is not None
    return learn(system.network, to_network_mono(marked, system.rate))


def _write(system: WatermarkSystem, pattern: Pattern, audio: Samples) -> Samples:
    """As strong as the system's own marks."""
    assert system.network is not None
    return clip_to_full_scale(write(system.network, pattern, audio, system.rate, system.level))
