// WAV files: the server's previews are read here, since decodeAudioData would resample them; recordings are written.

import { UserError } from "./errors.js";

const PCM = 1;
const BYTES_PER_SAMPLE = { pcm: 2, float: 4 };
const HEADER_BYTES = 44;

/**
 * @param {ArrayBuffer} file a WAV file of 32-bit floats
 * @returns {AudioBuffer} at the file's own rate
 */
export function decodeFloatWav(file) {
  const view = new DataView(file);
  let channels = 1,
    rate = 0;
  for (let at = 12; at + 8 <= file.byteLength;) {
    const name = ascii(view, at),
      start = at + 8;
    if (name === "fmt ") {
      channels = view.getUint16(start + 2, true);
      rate = view.getUint32(start + 4, true);
    }
    if (name === "data") {
      const bytes = Math.min(view.getUint32(at + 4, true), file.byteLength - start);
      return deinterleave(view, start, Math.floor(bytes / BYTES_PER_SAMPLE.float / channels), channels, rate);
    }
    at = start + view.getUint32(at + 4, true) + (view.getUint32(at + 4, true) % 2);
  }
  throw new UserError("The server sends no audio to draw.");
}

/**
 * @param {Float32Array[]} blocks of one channel
 * @param {number} rate in Hz
 * @returns {Blob} a WAV file of 16-bit samples
 */
export function encodeWav(blocks, rate) {
  const length = blocks.reduce((sum, block) => sum + block.length, 0);
  const bytes = length * BYTES_PER_SAMPLE.pcm;
  const view = new DataView(new ArrayBuffer(HEADER_BYTES + bytes));
  const write = (/** @type {number} */ at, /** @type {string} */ text) =>
    [...text].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  write(0, "RIFF");
  view.setUint32(4, HEADER_BYTES - 8 + bytes, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, PCM, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * BYTES_PER_SAMPLE.pcm, true);
  view.setUint16(32, BYTES_PER_SAMPLE.pcm, true);
  view.setUint16(34, 8 * BYTES_PER_SAMPLE.pcm, true);
  write(36, "data");
  view.setUint32(40, bytes, true);
  let at = HEADER_BYTES;
  for (const block of blocks) {
    for (const sample of block) {
      view.setInt16(at, Math.max(-32768, Math.min(32767, Math.round(sample * 32767))), true);
      at += BYTES_PER_SAMPLE.pcm;
    }
  }
  return new Blob([view.buffer], { type: "audio/wav" });
}

function ascii(/** @type {DataView} */ view, /** @type {number} */ at) {
  return String.fromCharCode(...[0, 1, 2, 3].map((i) => view.getUint8(at + i)));
}

/** @param {AudioBufferOptions} options @returns {AudioBuffer} */
function makeBuffer(options) {
  try {
    return new AudioBuffer(options);
  } catch {
    const { numberOfChannels: channels, sampleRate } = options;
    throw new UserError(`This browser cannot play ${sampleRate} Hz in ${channels} channels; convert the file first.`);
  }
}

/** @returns {AudioBuffer} */
function deinterleave(
  /** @type {DataView} */ view,
  /** @type {number} */ start,
  /** @type {number} */ length,
  /** @type {number} */ channels,
  /** @type {number} */ sampleRate,
) {
  const buffer = makeBuffer({ length: Math.max(length, 1), numberOfChannels: channels, sampleRate });
  for (let channel = 0; channel < channels; channel++) {
    const samples = buffer.getChannelData(channel);
    for (let i = 0; i < length; i++) {
      samples[i] = view.getFloat32(start + BYTES_PER_SAMPLE.float * (i * channels + channel), true);
    }
  }
  return buffer;
}
