"""Room acoustics: impulse responses of rectangular rooms by image sources (Allen and Berkley, 1979)."""

import math

import numpy as np

METRES_PER_SECOND = 343.0
"""Speed of sound."""

MIN_ROOM_METRES, MAX_ROOM_METRES = (4.0, 3.0, 2.4), (7.0, 5.0, 3.2)
"""Length, breadth and height of rooms, in metres; a room is drawn between these."""

WALL_DISTANCE_METRES = 0.2
"""Metres that loudspeaker and microphone keep from the walls."""

MAX_DECAY_SECONDS = 1.0
"""Longest reverberation time in seconds: the number of image sources grows with its third power."""


def response(rate: int, rng: np.random.Generator, decay: float, distance: float) -> np.ndarray:
    """(taps,) of a random room whose sound falls by 60 dB in `decay` seconds, heard at `distance` metres or less.

    The first tap is the direct sound, of gain 1; what comes after `decay` is cut off.
    """
    size = rng.uniform(MIN_ROOM_METRES, MAX_ROOM_METRES)
    microphone = size * rng.uniform(0.3, 0.7, 3)
    angle = rng.uniform(0, 2 * math.pi)
    away = distance * np.array([math.cos(angle), math.sin(angle), 0.0])
    loudspeaker = np.clip(microphone + away, WALL_DISTANCE_METRES, size - WALL_DISTANCE_METRES)
    volume, surface = size.prod(), 2 * (size[0] * size[1] + size[1] * size[2] + size[2] * size[0])
    reflected = math.exp(-0.161 * volume / (surface * decay) / 2)  # Eyring's formula, solved for the amplitude

    reach = METRES_PER_SECOND * decay
    squares: np.ndarray = np.zeros(1)
    bounces: np.ndarray = np.zeros(1)
    for axis in range(3):
        rooms = np.arange(-math.ceil(reach / size[axis] / 2), math.ceil(reach / size[axis] / 2) + 1)
        images = np.concatenate([2 * rooms * size[axis] + side * loudspeaker[axis] for side in (1, -1)])
        walls = np.concatenate([2 * abs(rooms), abs(2 * rooms - 1)])
        squares = np.add.outer(squares, np.square(images - microphone[axis])).ravel()
        bounces = np.add.outer(bounces, walls).ravel()
        near = squares < reach**2
        squares, bounces = squares[near], bounces[near]
    metres = np.sqrt(squares).clip(0.1)
    delays = np.rint((metres - metres.min()) / METRES_PER_SECOND * rate).astype(np.int64)
    return np.bincount(delays, reflected**bounces * metres.min() / metres)
