// Pictures on canvases: waveform with marked places, spectrograms with their axes. All share the same place for time.

/** Pixels of a page left of the plots, for the labels of the frequency axis. */
export const GUTTER = 46;

const AXIS_HEIGHT = 18;
const FONT = "11px system-ui, sans-serif";
const TICK_STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600];
const TICK_WIDTH = 64;
const HERTZ_STEP = 2000;
const MASKED_RANGE_DB = { low: -40, high: 20, step: 20 };

/** Colours of levels from low to high, as red, green, blue. */
const RAMP = [
  [8, 12, 24],
  [13, 42, 74],
  [12, 92, 106],
  [20, 148, 128],
  [110, 210, 150],
  [246, 244, 180],
];

const SHADES = 256;

/** @typedef {import("./spectrum.js").Spectrogram} Spectrogram */
/** @typedef {{start: number, end: number, label: string}} Region a marked place, in seconds, and what to write on it */

/**
 * @param {HTMLCanvasElement} canvas
 * @param {AudioBuffer} sound
 * @param {Region[]} regions
 */
export function drawWaveform(canvas, sound, regions) {
  const { pen, width, height, colour } = prepare(canvas);
  const plot = { left: GUTTER, width: width - GUTTER, height: height - AXIS_HEIGHT };
  const at = (/** @type {number} */ seconds) =>
    plot.left + (plot.width * Math.min(seconds, sound.duration)) / sound.duration;
  for (const { start, end } of regions) {
    pen.fillStyle = colour("--region");
    pen.fillRect(at(start), 0, at(end) - at(start), plot.height);
  }
  drawEnvelope(pen, plot, sound, colour("--wave"));
  for (const { start, end, label } of regions) drawBorders(pen, plot.height, at(start), at(end), label, colour);
  drawTime(pen, plot, sound.duration, colour);
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Spectrogram} spectrogram
 * @param {{low: number, high: number}} range levels in dBFS that have the first and the last colour
 * @param {number} seconds
 */
export function drawSpectrogram(canvas, spectrogram, range, seconds) {
  const { pen, width, height, colour } = prepare(canvas);
  const plot = { left: GUTTER, width: width - GUTTER, height: height - AXIS_HEIGHT };
  pen.drawImage(colours(spectrogram, range), plot.left, 0, plot.width, plot.height);
  pen.fillStyle = colour("--soft");
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (let hertz = 0; hertz <= spectrogram.hertz; hertz += HERTZ_STEP) {
    const y = plot.height * (1 - hertz / spectrogram.hertz);
    const label = hertz === 0 ? "0" : `${hertz / 1000} kHz`;
    pen.fillText(label, plot.left - 6, Math.max(6, Math.min(y, plot.height - 6)));
  }
  drawTime(pen, plot, seconds, colour);
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {number[]} ratios noise to mask in dB, of equally long stretches of the audio
 * @param {number} seconds
 */
export function drawMasked(canvas, ratios, seconds) {
  const { pen, width, height, colour } = prepare(canvas);
  const plot = { left: GUTTER, width: width - GUTTER, height: height - AXIS_HEIGHT };
  const { low, high, step } = MASKED_RANGE_DB;
  const at = (/** @type {number} */ ratio) =>
    (plot.height * (high - Math.max(low, Math.min(ratio, high)))) / (high - low);
  const threshold = at(0);
  ratios.forEach((ratio, i) => {
    const border = (/** @type {number} */ index) => Math.round(plot.left + (plot.width * index) / ratios.length);
    const left = border(i),
      across = Math.max(1, border(i + 1) - left);
    const top = at(ratio);
    pen.fillStyle = colour("--wave");
    pen.fillRect(left, Math.max(top, threshold), across, plot.height - Math.max(top, threshold));
    pen.fillStyle = colour("--problem");
    pen.fillRect(left, top, across, Math.max(0, threshold - top));
  });
  pen.fillStyle = colour("--ink");
  pen.fillRect(plot.left, threshold - 0.5, plot.width, 1);
  pen.fillStyle = colour("--soft");
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (let ratio = low; ratio <= high; ratio += step) {
    const label = `${ratio > 0 ? "+" : ""}${ratio} dB`.replace("-", "−");
    pen.fillText(label, plot.left - 6, Math.max(6, Math.min(at(ratio), plot.height - 6)));
  }
  drawTime(pen, plot, seconds, colour);
}

/** @param {HTMLCanvasElement} canvas filled with the colours of levels, low at the left */
export function drawRamp(canvas) {
  const { pen, width, height } = prepare(canvas);
  for (let x = 0; x < width; x++) {
    pen.fillStyle = `rgb(${shade(x / (width - 1)).join(" ")})`;
    pen.fillRect(x, 0, 1, height);
  }
}

/** @param {HTMLCanvasElement} canvas made as fine as the screen, and empty; units are pixels of the page */
function prepare(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  const scale = window.devicePixelRatio;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.scale(scale, scale);
  pen.font = FONT;
  const style = getComputedStyle(canvas);
  return { pen, width, height, colour: (/** @type {string} */ name) => style.getPropertyValue(name) };
}

/** @typedef {{left: number, width: number, height: number}} Plot */

function drawEnvelope(
  /** @type {CanvasRenderingContext2D} */ pen,
  /** @type {Plot} */ plot,
  /** @type {AudioBuffer} */ sound,
  /** @type {string} */ colour,
) {
  const middle = plot.height / 2;
  const channels = Array.from({ length: sound.numberOfChannels }, (_, i) => sound.getChannelData(i));
  pen.fillStyle = colour;
  for (let x = 0; x < plot.width; x++) {
    const first = Math.floor((x / plot.width) * sound.length);
    const last = Math.max(first + 1, Math.floor(((x + 1) / plot.width) * sound.length));
    let low = 0,
      high = 0;
    for (const samples of channels) {
      for (let i = first; i < last && i < samples.length; i++) {
        if (samples[i] < low) low = samples[i];
        if (samples[i] > high) high = samples[i];
      }
    }
    const top = middle * (1 - Math.min(high, 1)),
      bottom = middle * (1 - Math.max(low, -1));
    pen.fillRect(plot.left + x, top, 1, Math.max(1, bottom - top));
  }
}

function drawBorders(
  /** @type {CanvasRenderingContext2D} */ pen,
  /** @type {number} */ height,
  /** @type {number} */ left,
  /** @type {number} */ right,
  /** @type {string} */ label,
  /** @type {(name: string) => string} */ colour,
) {
  pen.fillStyle = colour("--accent");
  pen.fillRect(left, 0, 2, height);
  pen.fillRect(right - 2, 0, 2, height);
  pen.font = `600 ${FONT}`;
  const width = pen.measureText(label).width + 12;
  if (width < right - left) {
    pen.fillRect(left, 0, width, 18);
    pen.fillStyle = colour("--on-accent");
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillText(label, left + 6, 9.5);
  }
  pen.font = FONT;
}

function drawTime(
  /** @type {CanvasRenderingContext2D} */ pen,
  /** @type {Plot} */ plot,
  /** @type {number} */ seconds,
  /** @type {(name: string) => string} */ colour,
) {
  const wanted = (seconds * TICK_WIDTH) / plot.width;
  const step = TICK_STEPS.find((value) => value >= wanted) ?? seconds;
  pen.textBaseline = "alphabetic";
  for (let tick = 0; tick <= seconds + 1e-9; tick += step) {
    const x = plot.left + (tick / seconds) * plot.width;
    pen.fillStyle = colour("--line");
    pen.fillRect(Math.min(x, plot.left + plot.width - 1), plot.height, 1, 4);
    pen.fillStyle = colour("--soft");
    pen.textAlign = tick === 0 ? "left" : x > plot.left + plot.width - 20 ? "right" : "center";
    pen.fillText(step < 60 ? `${Number(tick.toFixed(1))} s` : `${tick / 60} min`, x, plot.height + 15);
  }
}

/** @returns {OffscreenCanvas} one pixel for each level, low frequencies at the bottom */
function colours(
  /** @type {Spectrogram} */ { levels, columns, bins },
  /** @type {{low: number, high: number}} */ { low, high },
) {
  const image = new ImageData(columns, bins);
  const shades = Array.from({ length: SHADES }, (_, i) => [...shade(i / (SHADES - 1)), 255]);
  for (let column = 0; column < columns; column++) {
    for (let bin = 0; bin < bins; bin++) {
      const share = (levels[column * bins + bin] - low) / (high - low);
      const index = Math.round(Math.max(0, Math.min(share, 1)) * (SHADES - 1));
      image.data.set(shades[index], 4 * ((bins - 1 - bin) * columns + column));
    }
  }
  const canvas = new OffscreenCanvas(columns, bins);
  /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d")).putImageData(image, 0, 0);
  return canvas;
}

/** @param {number} share 0 to 1 @returns {number[]} red, green, blue */
function shade(share) {
  const place = share * (RAMP.length - 1);
  const below = Math.min(Math.floor(place), RAMP.length - 2);
  return RAMP[below].map((value, i) => Math.round(value + (place - below) * (RAMP[below + 1][i] - value)));
}
