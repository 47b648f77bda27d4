"""The grid that the network, the engine and the benchmark share: one place defines these numbers.

A segment is the paper's unit: one second at 16 kHz. With a hop of 250 samples it holds exactly
64 frames, so a mark of one second can be tiled through a file as a ring without seams.
"""

SAMPLE_RATE = 16_000
"""Sampling rate the network works at, in Hz."""

SEGMENT_SAMPLES = 16_000
"""Samples of one segment: one second."""

WINDOW_SAMPLES = 1_000
"""Samples of one STFT window (the paper's n_fft and window length)."""

HOP_SAMPLES = 250
"""Samples between two STFT frames."""

FRAMES_PER_SECOND = SEGMENT_SAMPLES // HOP_SAMPLES
"""Frames of one segment: the length of the ring."""

NUM_BINS = WINDOW_SAMPLES // 2 + 1
"""Frequency bins of one frame, 16 Hz apart."""

EDGE_SAMPLES = (WINDOW_SAMPLES - HOP_SAMPLES) // 2
"""Samples by which the first window reaches out before the first sample: frame k is centred on hop k."""
