"""What the tests of the attacks measure."""

import numpy as np


def snr(reference: np.ndarray, other: np.ndarray) -> float:
    """Power of `reference` over the power of its difference to `other`, in dB; 200 where they are equal."""
    reference = reference.astype(np.float64)
    error = np.sum((reference - other) ** 2)
    return 200.0 if error == 0 else float(10 * np.log10(np.sum(reference**2) / error))


def delay(reference: np.ndarray, other: np.ndarray) -> int:
    """Samples by which `other` (n,) comes later than `reference` (n,): the peak of their cross-correlation."""
    n = len(reference)
    product = np.fft.rfft(other, 2 * n) * np.conj(np.fft.rfft(reference, 2 * n))
    peak = int(np.argmax(np.fft.irfft(product, 2 * n)))
    return peak if peak < n else peak - 2 * n
