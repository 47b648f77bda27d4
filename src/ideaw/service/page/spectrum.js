// Spectrograms: levels over time and frequency, by a small FFT; nothing is drawn here.

const WINDOW_SECONDS = 0.03;
const MAX_WINDOWS_PER_COLUMN = 4;
const COLUMNS_PER_SLICE = 40;
const FLOOR_POWER = 1e-20;

/**
 * @typedef {object} Spectrogram
 * @property {Float32Array} levels columns × bins in dBFS; a sine of full scale has 0
 * @property {number} columns
 * @property {number} bins from 0 Hz to `hertz`
 * @property {number} hertz the highest frequency
 * @property {number} peak the highest level in dBFS
 */

/**
 * @param {Float32Array[]} channels whose powers are averaged
 * @param {number} rate in Hz
 * @param {number} columns
 * @param {number} highest frequency in Hz that is shown, if the rate has it
 * @returns {Promise<Spectrogram>} it lets the page breathe while it works
 */
export async function spectrogram(channels, rate, columns, highest) {
  const size = 2 ** Math.round(Math.log2(rate * WINDOW_SECONDS));
  const bins = Math.min(size / 2, Math.ceil((highest / rate) * size)) + 1;
  const transform = powerSpectrum(size);
  const length = channels[0].length,
    step = length / columns;
  const windows = Math.min(MAX_WINDOWS_PER_COLUMN, Math.ceil(step / size));
  const levels = new Float32Array(columns * bins);
  let peak = -Infinity;
  for (let column = 0; column < columns; column++) {
    if (column % COLUMNS_PER_SLICE === 0) await new Promise((resolve) => setTimeout(resolve));
    const power = new Float64Array(size / 2 + 1);
    for (let window = 0; window < windows; window++) {
      const middle = (column + (window + 0.5) / windows) * step;
      for (const channel of channels) transform(channel, Math.round(middle - size / 2), power);
    }
    for (let bin = 0; bin < bins; bin++) {
      const level = 10 * Math.log10(power[bin] / (windows * channels.length) + FLOOR_POWER);
      levels[column * bins + bin] = level;
      peak = Math.max(peak, level);
    }
  }
  return { levels, columns, bins, hertz: ((bins - 1) * rate) / size, peak };
}

/**
 * @param {number} size of the window in samples, a power of two
 * @returns {(samples: Float32Array, start: number, power: Float64Array) => void} adds to `power`, (size / 2 + 1,)
 */
function powerSpectrum(size) {
  const hann = Float64Array.from({ length: size }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / size));
  const scale = (2 / hann.reduce((sum, value) => sum + value, 0)) ** 2;
  const real = new Float64Array(size),
    imaginary = new Float64Array(size);
  const fft = makeFft(size);
  return (samples, start, power) => {
    for (let i = 0; i < size; i++) real[i] = (samples[start + i] ?? 0) * hann[i];
    imaginary.fill(0);
    fft(real, imaginary);
    for (let bin = 0; bin <= size / 2; bin++) power[bin] += scale * (real[bin] ** 2 + imaginary[bin] ** 2);
  };
}

/** @param {number} size @returns {(real: Float64Array, imaginary: Float64Array) => void} radix 2, in place */
function makeFft(size) {
  const bits = Math.log2(size);
  const swapped = Uint32Array.from({ length: size }, (_, i) => {
    let reversed = 0;
    for (let bit = 0; bit < bits; bit++) reversed |= ((i >> bit) & 1) << (bits - 1 - bit);
    return reversed;
  });
  const cosines = Float64Array.from({ length: size / 2 }, (_, i) => Math.cos((2 * Math.PI * i) / size));
  const sines = Float64Array.from({ length: size / 2 }, (_, i) => -Math.sin((2 * Math.PI * i) / size));
  return (real, imaginary) => {
    for (let i = 0; i < size; i++) {
      const j = swapped[i];
      if (j > i) {
        [real[i], real[j]] = [real[j], real[i]];
        [imaginary[i], imaginary[j]] = [imaginary[j], imaginary[i]];
      }
    }
    for (let half = 1; half < size; half *= 2) {
      const stride = size / (2 * half);
      for (let block = 0; block < size; block += 2 * half) {
        for (let i = 0; i < half; i++) {
          const low = block + i,
            high = low + half,
            cosine = cosines[i * stride],
            sine = sines[i * stride];
          const re = real[high] * cosine - imaginary[high] * sine;
          const im = real[high] * sine + imaginary[high] * cosine;
          real[high] = real[low] - re;
          imaginary[high] = imaginary[low] - im;
          real[low] += re;
          imaginary[low] += im;
        }
      }
    }
  };
}
