"""Files in one call, with the packaged models: each is loaded once and then shared."""

from collections.abc import Sequence
from functools import cache

from ideaw.audio.blocks import Progress
from ideaw.audio.spool import AudioInput, AudioOutput
from ideaw.engine.gain import MarkLevel
from ideaw.hypotheses import Speeds
from ideaw.keys import Key
from ideaw.layers import ALL_LAYERS, LayersLike
from ideaw.marker import load
from ideaw.payload.message import MessageLike
from ideaw.results import Detection


def embed_file(
    source: AudioInput,
    target: AudioOutput,
    message: MessageLike,
    *,
    model: str | None = None,
    snr: float | None = None,
    audibility: float | None = None,
    layers: LayersLike | None = None,
    verify: bool = True,
    over: bool = False,
    overwrite: bool = True,
    progress: Progress | None = None,
) -> MarkLevel:
    """Mark a file as another one under the public key, as `Marker.embed_file` does.

    Args:
        source: the audio file to mark: its path, an open binary file, or its content in bytes.
        target: the file to write, which appears whole or not at all; its extension gives the format. An open binary
            file gets the format of the source.
        message: text, bytes, or a sequence of zeros and ones.
        model: name of a packaged model, or path of a model folder that you trust (None: the default).
        snr: dB that every second of every channel keeps at least, instead of `audibility`.
        audibility: dB of noise to mask that hearing sets the level to (None: the card's); lower is quieter.
        layers: of the mark: "fast", "deep" or both (None: both, or "fast" where `snr` is given); see `Marker.embed`.
        verify: whether what was written is read back before it is handed over.
        over: whether to mark even over a readable mark of the public key.
        overwrite: whether a file at `target` may be replaced.
        progress: called with the share of the work that is done, 0 to 1.

    Returns:
        The level that was taken, SNR and noise to mask in dB, one of them None; less than two seconds may be marked up
        to 6 dB more strongly than usual, where the mark cannot be read back else.

    Raises:
        AudioError: the audio cannot be marked, or the mark would round or clip away.
        LostMarkError: the mark cannot be read back from what was written, which is thrown away.
        AlreadyMarkedError: the audio carries a mark already.
        FileError: a file cannot be read or written.
        MessageError: the message is empty, or does not fit into this audio.
        ModelError: there is no such model.
        IdeawError: `snr` or `audibility` is out of range, or both are given.
    """
    return _shared(model).embed_file(
        source,
        target,
        message,
        snr=snr,
        audibility=audibility,
        layers=layers,
        verify=verify,
        over=over,
        overwrite=overwrite,
        progress=progress,
    )


def detect_file(
    path: AudioInput,
    *,
    model: str | None = None,
    keys: Sequence[Key] | None = None,
    speeds: Speeds | None = None,
    layers: LayersLike = ALL_LAYERS,
    expected: Sequence[MessageLike] = (),
    min_check_bits: int = 0,
    longest: float | None = None,
    progress: Progress | None = None,
) -> Detection:
    """Search a file for a mark, as `Marker.detect_file` does.

    Args:
        path: the audio file, of any length: its path, an open binary file, or its content in bytes.
        model: name of a packaged model, or path of a model folder that you trust (None: the default).
        keys: whose marks are looked for (None: the public key).
        speeds: tried, with and without change of pitch, where nothing or pieces are found: "near" up to 6 % off, "all"
            from 0.8 to 1.25, or "none" (None: all, but near for the deep layer).
        layers: which are looked for: "fast", "deep", or "deep" where "fast" is not found or not readable.
        expected: messages that the deep layer is tested for by themselves.
        min_check_bits: proof that a message was made with its key, without which it is not told.
        longest: seconds of audio that are searched at most (None: any length).
        progress: called with the share of the work that is done, 0 to 1.

    Raises:
        AudioError: the audio cannot be searched.
        FileError: the file cannot be read.
        ModelError: there is no such model.
        IdeawError: `keys` holds none or no keys, or `speeds` is not known.
    """
    return _shared(model).detect_file(
        path,
        keys=keys,
        speeds=speeds,
        layers=layers,
        expected=expected,
        min_check_bits=min_check_bits,
        longest=longest,
        progress=progress,
    )


_shared = cache(load)
