// The microphone as a WAV file: samples are taken as they come, since MediaRecorder would code them with losses.

import { UserError } from "./errors.js";
import { encodeWav } from "./wav.js";

/** Nothing may change what the microphone hears: a mark would suffer from it. */
const CONSTRAINTS = { audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false } };

/** A recording that runs. */
export class Recording {
  /** @type {Float32Array[]} */
  #blocks = [];
  #context;
  #stream;

  /**
   * @param {AudioContext} context
   * @param {MediaStream} stream
   * @param {(seconds: number, peak: number) => void} heard
   */
  constructor(context, stream, heard) {
    this.#context = context;
    this.#stream = stream;
    const tap = new AudioWorkletNode(context, "tap", {
      numberOfOutputs: 0,
      channelCount: 1,
      channelCountMode: "explicit",
    });
    tap.port.onmessage = ({ data }) => {
      this.#blocks.push(data);
      heard(
        this.seconds,
        data.reduce((/** @type {number} */ top, /** @type {number} */ x) => Math.max(top, Math.abs(x)), 0),
      );
    };
    context.createMediaStreamSource(stream).connect(tap);
  }

  /**
   * Ask for the microphone and start.
   * @param {(seconds: number, peak: number) => void} heard called as audio arrives, with the highest sample of 0 to 1
   */
  static async start(heard) {
    if (!navigator.mediaDevices) {
      throw new UserError(
        "This browser gives no microphone to this page: open it as https, or on this computer itself.",
      );
    }
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia(CONSTRAINTS);
    } catch (problem) {
      throw new UserError(
        problem instanceof DOMException && problem.name === "NotAllowedError"
          ? "The microphone is not allowed here; allow it in the browser, or choose a file."
          : "No microphone can be opened; connect one, or choose a file.",
      );
    }
    const context = new AudioContext();
    await context.audioWorklet.addModule("/static/tap.js");
    return new Recording(context, stream, heard);
  }

  get seconds() {
    return this.#blocks.reduce((sum, block) => sum + block.length, 0) / this.#context.sampleRate;
  }

  /** Let the microphone go. @returns {Promise<File>} */
  async stop() {
    for (const track of this.#stream.getTracks()) track.stop();
    const rate = this.#context.sampleRate;
    await this.#context.close();
    return new File([encodeWav(this.#blocks, rate)], "recording.wav", { type: "audio/wav" });
  }
}
