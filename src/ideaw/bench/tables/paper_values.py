"""What the paper prints of its models, its rivals and its ablations, on its own audio (VCTK and FMA)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Printed:
    """One row of the paper's tables."""

    snr: float
    """In dB, on average."""
    accuracy: float
    """Share of bits that were right, in per cent, without an attack."""
    attacked: tuple[float, ...]
    """Share of bits right in per cent under its attacks, in their order: GN LF CP QZ RD RS AM TS."""
    capacity: float | None = None
    """Bits in a second, locating code and message together; of ablations it is not printed."""


MODELS = {
    "DeAR": Printed(26.18, 99.61, (99.61, 99.04, 99.55, 99.63, 99.61, 99.62, 99.61, 99.31), 8.8),
    "10+10": Printed(40.43, 99.64, (99.47, 98.62, 99.41, 98.86, 99.60, 99.11, 99.49, 98.95), 20.0),
    "WavMark": Printed(38.55, 99.35, (97.84, 98.54, 98.81, 96.60, 98.68, 98.42, 99.29, 95.35), 32.0),
    "22+10": Printed(37.72, 99.52, (99.33, 98.53, 99.15, 98.73, 99.23, 99.02, 99.48, 98.82), 32.0),
    "46+10": Printed(35.41, 99.44, (98.72, 98.12, 99.00, 98.61, 98.84, 98.87, 99.42, 98.66), 56.0),
}
"""Its Tables 1 and 2, in their order."""

ABLATIONS = {
    "M1": Printed(32.30, 99.40, (98.25, 98.18, 98.79, 98.73, 98.90, 98.46, 99.28, 98.58)),
    "M2": Printed(35.27, 98.70, (98.14, 97.79, 98.55, 96.07, 98.24, 98.39, 97.62, 96.57)),
    "full": MODELS["46+10"],
}
"""Its Tables 3 and 4: M1 is trained without the discriminator, M2 without the balance block, and 46+10 with both."""

LOCATING_SAVED = "40–50"
"""Per cent of a single stage's time that the paper's search saves; its figure has no numbers."""
