"""How much energy messages need in white Gaussian noise: for each length and duration, where 95 % of words are read.

    python benchmarks/code_energy.py --bytes 5,20,80 --seconds 4,12 --trials 60

Everything that reads a message is in it: its length and phase are not known, and the check has to pass. Energy is that
of all slots together over the variance of their noise. Levels are tried in steps of 0.25 dB, and a logistic curve
through their shares gives the one that is named; 0 bytes stands for a message that every second repeats.
"""

import argparse
from math import log10

import numpy as np

import ideaw
from ideaw.engine.decode import decode_repeated
from ideaw.engine.long_messages import decode_long
from ideaw.engine.plan import plan_message
from ideaw.keys import PUBLIC
from ideaw.modem.channel import KeyChannels
from ideaw.modem.long_frames import LENGTH_SLOTS
from ideaw.modem.short_frames import ZERO_BITS, RingFrames
from ideaw.payload.body import seconds_for
from ideaw.payload.message import Message, layout

READ_SHARE, STEP_DB = 0.95, 0.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", default="0,5,8,13,20,40,80,160")
    parser.add_argument("--seconds", default="3,6,12,40")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--model")
    given = parser.parse_args()
    marker = ideaw.load(given.model)
    channels = marker.network.channels(PUBLIC)
    print("bytes seconds bits energy  energy/bit  Eb/N0 in dB, of the code's slots alone")
    for count in map(int, given.bytes.split(",")):
        for seconds in map(int, given.seconds.split(",")):
            if count and seconds < seconds_for(count):
                continue
            energy = needed_energy(channels, marker.message_bits, count, seconds, given.trials)
            short, bits, others = channels.short, channels.short.bits, 0
            if count and channels.long:
                bits, others = channels.long.code(count).bits, LENGTH_SLOTS
            elif isinstance(short, RingFrames):
                bits, others = short.bits + ZERO_BITS, short.tag_slots  # slots that carry no bits of the code
            share = 1 - others / channels.message.carriers.slots
            print(
                f"{count:5} {seconds:7} {bits:4} {energy:6.0f} {energy / bits:11.2f} "
                f"{10 * log10(energy * share / 2 / bits):7.2f}",
                flush=True,
            )


def needed_energy(channels: KeyChannels, message_bits: int, count: int, seconds: int, trials: int) -> float:
    """The energy at which READ_SHARE of messages of so many bytes are read."""
    rng = np.random.default_rng([count, seconds])
    level, shares = 10 * log10(2.2 * (8 * max(count, 4) + 30)), dict[float, float]()
    level = round(level / STEP_DB) * STEP_DB
    while True:  # downwards from where most are read
        shares[level] = read_share(channels, message_bits, count, seconds, 10 ** (level / 10), trials, rng)
        if max(shares.values()) < 0.98:
            level = max(shares) + 2 * STEP_DB
        elif min(shares.values()) > 0.8:
            level = min(shares) - STEP_DB
        else:
            break
    return 10 ** (crossing(shares, trials) / 10)


def read_share(
    channels: KeyChannels,
    message_bits: int,
    count: int,
    seconds: int,
    energy: float,
    trials: int,
    rng: np.random.Generator,
) -> float:
    """The share of random messages that are read at this energy."""
    return float(np.mean([_is_read(channels, message_bits, count, seconds, energy, rng) for _ in range(trials)]))


def _is_read(
    channels: KeyChannels, message_bits: int, count: int, seconds: int, energy: float, rng: np.random.Generator
) -> bool:
    amplitude = (energy / (seconds * channels.message.carriers.slots)) ** 0.5
    most = layout(message_bits)
    message = Message(rng.bytes(count or most.content_bytes) or tuple(map(int, rng.integers(0, 2, most.content_bits))))
    plan = plan_message(message, channels, message_bits)
    symbols = plan.symbols[(int(rng.integers(64)) + np.arange(seconds)) % len(plan.symbols)]
    rows = amplitude * symbols + rng.standard_normal(symbols.shape)
    if not count:
        return decode_repeated(rows, channels).message == message
    assert channels.long is not None
    long = decode_long(rows, channels.long, message_bits)
    return long is not None and long.message == message


def crossing(shares: dict[float, float], trials: int) -> float:
    """The level in dB at which a logistic curve of maximum likelihood through these shares is READ_SHARE."""
    levels, read = np.array(list(shares)), np.array(list(shares.values()))
    best, answer = -np.inf, 0.0
    for slope in np.geomspace(1, 16, 25):
        for middle in np.arange(levels.min() - 2, levels.max(), 0.02):
            chance = np.clip(1 / (1 + np.exp(-slope * (levels - middle))), 1e-9, 1 - 1e-9)
            fit = float(trials * (read * np.log(chance) + (1 - read) * np.log(1 - chance)).sum())
            if fit > best:
                best, answer = fit, middle + float(np.log(READ_SHARE / (1 - READ_SHARE))) / slope
    return answer


if __name__ == "__main__":
    main()
