"""One model with a key at the paper's own level: segments of one second at 16 kHz whose place is known."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ideaw.audio.grid import SEGMENT_SAMPLES
from ideaw.audio.samples import quantisation_step, restore
from ideaw.engine.gain import check_snr, fit_to_grid
from ideaw.engine.network import Network, single_threaded_blas
from ideaw.engine.segments import check_bits, check_segments, embed_segments, extract_segments
from ideaw.keys import PUBLIC, Key
from ideaw.models import Card
from ideaw.payload.body import capacity


class SegmentMarker:
    """Marks and reads single segments; everything that also models for comparisons can do."""

    def __init__(self, network: Network, key: Key = PUBLIC) -> None:
        self.network = network
        """The model's graphs, for benchmarks."""
        self._key, self._channels = key, network.channels(key)

    @property
    def card(self) -> Card:
        """What the model says about itself."""
        return self.network.card

    @property
    def weights_id(self) -> str:
        """Which weights these are, as sixteen digits: models of one name may be trained anew."""
        return self.network.weights_id

    @property
    def message_bits(self) -> int:
        """Payload bits in one second."""
        return self.card.message_bits

    @property
    def code_bits(self) -> int:
        """Bits of the locating code."""
        return self.card.code_bits

    def capacity(self, seconds: float) -> int:
        """How many bytes of text or other data fit into audio of `seconds` seconds; 0 if it is too short for any."""
        return capacity(seconds, self.message_bits)

    @single_threaded_blas()
    def embed_segment(
        self, x: ArrayLike, message_bits: ArrayLike, code_bits: ArrayLike, snr: float | None = None
    ) -> NDArray[Any]:
        """Mark segments of one second with raw bits; shape and type stay.

        Args:
            x: `(16000,)` or `(batch, 16000)` samples at 16 kHz, floats of full scale 1 or integer PCM.
            message_bits: `(message_bits,)` or `(batch, message_bits)` zeros and ones.
            code_bits: `(code_bits,)` or `(batch, code_bits)` zeros and ones of the locating code.
            snr: dB that every segment keeps at least (None: the card's).

        Raises:
            AudioError: the segments have another shape or are not finite.
            MessageError: the bits have another shape or are not all 0 or 1.
            IdeawError: `snr` is not from 0 to 100 dB.
        """
        array = np.asarray(x)
        audio = check_segments(array)
        message = check_bits(message_bits, len(audio), self.message_bits, "message")
        code = check_bits(code_bits, len(audio), self.code_bits, "code")
        min_snr, step = check_snr(snr, self.card.snr), quantisation_step(array.dtype)
        marked = embed_segments(self.network, self._channels, audio, message, code, min_snr)
        pairs = zip(audio, marked - audio, strict=True)
        fitted = [fit_to_grid(residual, host, min_snr, SEGMENT_SAMPLES, step) for host, residual in pairs]
        return restore(audio + np.stack(fitted), audio, array.dtype).reshape(array.shape)

    @single_threaded_blas()
    def extract_segment(self, y: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Read segments of one second whose place is known to within 62 ms.

        Args:
            y: `(16000,)` or `(batch, 16000)` samples at 16 kHz.

        Returns:
            LLRs of message and locating code, `(bits,)` or `(batch, bits)` each, positive for 1.

        Raises:
            AudioError: the segments have another shape or are not finite.
        """
        array = np.asarray(y)
        message, code = extract_segments(self.network, self._channels, check_segments(array))
        return (message[0], code[0]) if array.ndim == 1 else (message, code)

    def __copy__(self) -> Self:
        return self  # it never changes

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a model for comparisons cannot be pickled; load it again in the other process")
