"""A speech server with the common interface `/v1/audio/speech`, on top of espeak-ng, whose every answer is marked.

    python examples/speech_server.py --port 8000                    # marks with "ab12"
    python examples/speech_server.py --port 8000 --message ""       # marks nothing: put `ideaw proxy` in front of it
    curl 127.0.0.1:8000/v1/audio/speech -H 'content-type: application/json' -o hello.mp3 \
        -d '{"input": "Hello there.", "voice": "en", "response_format": "mp3"}'

It needs `ideaw[serve]` and the program espeak-ng. Audio is sent while it is spoken, as PCM, WAV, MP3, Opus, AAC or
FLAC; marking it is the one line with `aembed_stream`.
"""

import argparse
import asyncio
import struct
from collections.abc import AsyncIterator
from typing import Any, Literal

import numpy as np
import uvicorn
from fastapi import FastAPI
from fastapi.responses import Response, StreamingResponse
from numpy.typing import NDArray
from pydantic import BaseModel, Field

import ideaw
from ideaw.service.proxy.transcode import Encoder

RATE = 22_050
"""Sampling rate in Hz of espeak-ng."""

BLOCK_BYTES = RATE // 50 * 2
"""20 ms of samples, read at a time."""

TYPES = {
    "pcm": f"audio/pcm;rate={RATE}",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
}


class SpeechRequest(BaseModel):
    """The body of a request."""

    input: str = Field(min_length=1, max_length=4096)
    model: str = "espeak-ng"
    voice: str = Field("en", pattern=r"^[a-z][a-z0-9-]*$")
    response_format: Literal["pcm", "wav", "mp3", "opus", "aac", "flac"] = "mp3"
    speed: float = Field(1.0, ge=0.25, le=4.0)


async def speak(request: SpeechRequest) -> AsyncIterator[NDArray[np.int16]]:
    """The samples of a text, while espeak-ng speaks it; ended with whoever listens."""
    words = ("-v", request.voice, "-s", str(round(175 * request.speed)), "--stdin", "--stdout")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("espeak-ng", *words, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(request.input.encode())
        process.stdin.close()
        await process.stdout.readexactly(44)  # the head of a WAV file
        while data := await process.stdout.read(BLOCK_BYTES):
            if len(data) % 2:
                data += await process.stdout.readexactly(1)
            yield np.frombuffer(data, np.int16)
    except asyncio.IncompleteReadError:
        return  # nothing to say
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def encode(blocks: AsyncIterator[NDArray[Any]], response_format: str) -> AsyncIterator[bytes]:
    """Samples as the bytes of a format, as they come."""
    if response_format == "wav":  # of a length that is not known yet
        form = struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16)
        yield b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0" + form + b"data\xff\xff\xff\xff"
    if response_format in ("pcm", "wav"):
        async for block in blocks:
            yield block.tobytes()
        return
    encoder = None
    async for block in blocks:
        samples = block[:, None] if response_format == "flac" else block[:, None] / np.float32(32_768)
        encoder = encoder or Encoder(response_format, RATE, 1, samples.dtype, kbps=64)
        yield encoder.push(samples)
    if encoder is not None:
        yield encoder.finish()


def create_app(message: str) -> FastAPI:
    """The server; without a message it marks nothing."""
    app, marker = FastAPI(title="espeak-ng"), ideaw.load(threads=1)

    @app.post("/v1/audio/speech")
    async def speech(request: SpeechRequest) -> Response:
        blocks = speak(request)
        if message:
            blocks = marker.aembed_stream(blocks, RATE, message)  # this line marks all that is spoken
        return StreamingResponse(encode(blocks, request.response_format), media_type=TYPES[request.response_format])

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "espeak-ng", "object": "model"}]}

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--message", default="ab12")
    arguments = parser.parse_args()
    print(f"http://127.0.0.1:{arguments.port}/ starts; Ctrl-C stops it", flush=True)
    uvicorn.run(create_app(arguments.message), host="127.0.0.1", port=arguments.port, log_level="warning")
