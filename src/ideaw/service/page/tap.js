// Runs in the audio thread while one records: hands on what the microphone gives, in blocks of a fraction of a second.

const BLOCK_SAMPLES = 4096;

class Tap extends AudioWorkletProcessor {
  block = new Float32Array(BLOCK_SAMPLES);
  filled = 0;

  /** @param {Float32Array[][]} inputs */
  process([[samples]]) {
    if (!samples) return true;
    this.block.set(samples, this.filled);
    this.filled += samples.length;
    if (this.filled === BLOCK_SAMPLES) {
      this.port.postMessage(this.block);
      this.filled = 0;
    }
    return true;
  }
}

registerProcessor("tap", Tap);
