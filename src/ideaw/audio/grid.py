"""The grid that the network, the engine and the benchmark share: one place defines these numbers.

A segment is the paper's unit: one second at 16 kHz. With a hop of 250 samples it holds exactly
64 frames, so a mark of one second can be tiled through a file as a ring without seams.
"""

RATE = 16_000
"""Sampling rate the network works at, in Hz."""

SEGMENT = 16_000
"""Samples of one segment: one second."""

WINDOW = 1_000
"""Samples of one STFT window (the paper's n_fft and window length)."""

HOP = 250
"""Samples between two STFT frames."""

FRAMES = SEGMENT // HOP
"""Frames of one segment: the length of the ring."""

BINS = WINDOW // 2 + 1
"""Frequency bins of one frame, 16 Hz apart."""

EDGE = (WINDOW - HOP) // 2
"""Samples by which the first window reaches out before the first sample: frame k is centred on hop k."""
