"""FFmpeg's encoders by the names that subtypes have here: which one makes what, from samples of which form."""

from dataclasses import dataclass
from pathlib import Path

_WAVPACK_FLAGS = slice(24, 28)
_WAVPACK_HYBRID = 1 << 3
"""Flag of what is coded with loss, the rest perhaps in another file."""


@dataclass(frozen=True)
class AvCodec:
    """One way of coding.

    Attributes:
        encoder: FFmpeg's name.
        sample_format: FFmpeg's name of the form of samples that it takes.
        bits: width of integer samples that it keeps exactly; None for what codes floats or with loss.
    """

    encoder: str
    sample_format: str
    bits: int | None = None


AV_CODECS = {
    "AAC": AvCodec("aac", "fltp"),
    "ALAC_16": AvCodec("alac", "s16p", 16),
    "ALAC_24": AvCodec("alac", "s32p", 24),
    "FLAC_16": AvCodec("flac", "s16", 16),
    "FLAC_24": AvCodec("flac", "s32", 24),
    "WAVPACK_16": AvCodec("wavpack", "s16p", 16),
    "WAVPACK_32": AvCodec("wavpack", "s32p", 32),
    "WAVPACK_FLOAT": AvCodec("wavpack", "fltp"),
    "OPUS": AvCodec("libopus", "flt"),
    "MP3": AvCodec("libmp3lame", "fltp"),
    "MP2": AvCodec("mp2", "s16"),
    "AC3": AvCodec("ac3", "fltp"),
    "EAC3": AvCodec("eac3", "fltp"),
    "PCM_S16LE": AvCodec("pcm_s16le", "s16", 16),
    "PCM_S24LE": AvCodec("pcm_s24le", "s32", 24),
    "PCM_S32LE": AvCodec("pcm_s32le", "s32", 32),
    "PCM_F32LE": AvCodec("pcm_f32le", "flt"),
    "PCM_S16BE": AvCodec("pcm_s16be", "s16", 16),
    "PCM_S24BE": AvCodec("pcm_s24be", "s32", 24),
}
"""Subtypes that are written through PyAV."""

LOSSLESS_FAMILIES = ("alac", "flac", "wavpack", "pcm_")
"""How FFmpeg's names begin of codecs that keep every sample."""


def subtype_of(codec: str, sample_format: str) -> str:
    """The subtype of what FFmpeg decodes, by its names of the codec and of the samples' form."""
    if codec == "wavpack" and sample_format.startswith("flt"):
        return "WAVPACK_FLOAT"
    if codec in ("alac", "flac", "wavpack"):
        wide = "32" if codec == "wavpack" else "24"
        return f"{codec.upper()}_{'16' if sample_format.startswith('s16') else wide}"
    return codec.upper()


def wavpack_subtype(path: Path, decoded: str) -> str:
    """The subtype of a WavPack file by its first block, which FFmpeg decodes to 16 or 32 bits in any case."""
    with path.open("rb") as file:
        flags = int.from_bytes(file.read(_WAVPACK_FLAGS.stop)[_WAVPACK_FLAGS], "little")
    if flags & _WAVPACK_HYBRID:
        return "WAVPACK_HYBRID"
    return decoded if decoded == "WAVPACK_FLOAT" else f"WAVPACK_{8 * (1 + (flags & 3))}"
