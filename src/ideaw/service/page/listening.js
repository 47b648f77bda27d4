// The part of the page to listen and look: transport, pictures, playhead and what is told about the mark.

import { drawMasked, drawRamp, drawSpectrogram, drawWaveform, GUTTER } from "./drawing.js";
import { $ } from "./elements.js";
import { Player, VOICES } from "./player.js";
import { spectrogram } from "./spectrum.js";
import { clock, factsOf, quoted } from "./words.js";

const HIGHEST_HERTZ = 12_000;
const SPECTRUM_COLUMNS = 1000;
const RANGE_DB = 70;
const LEAST_PEAK_DBFS = -100; // what is fainter is drawn dark, silence too
const STEP_SECONDS = 1;

/** What is written on a marked place whose message is not known. */
const UNREAD_LABEL = "marked";

/** @typedef {import("./spectrum.js").Spectrogram} Spectrogram */
/** @typedef {{name: string, spectrogram: Spectrogram, range: {low: number, high: number}}} Picture */

/** @type {AudioContext | undefined} one for the whole page, at the rate of the audio, so that nothing is resampled */
let context;
/** @type {Player | null} */
let player = null;
/** @type {AudioBuffer[]} */
let sounds = [];
/** @type {import("./drawing.js").Region[]} */
let regions = [];
/** @type {Picture[]} */
let pictures = [];
/** @type {number[]} noise to mask in dB over time, of equally long stretches */
let ratios = [];
let started = () => {};
let frame = 0;

/**
 * Show audio, at the beginning and silent.
 * @param {AudioBuffer | null} original nothing is shown without it
 * @param {AudioBuffer | null} [marked]
 * @param {boolean} [lossy] whether marking coded the audio anew, which shows in the difference
 */
export async function show(original, marked, lossy = false) {
  player?.pause();
  player = null;
  $("listening").hidden = !original;
  if (!original) return;
  sounds = marked ? [original, marked] : [original];
  regions = [];
  pictures = [];
  ratios = [];
  $("masked-figure").hidden = true;
  $("coded-note").hidden = !lossy;
  player = new Player(() => contextFor(original.sampleRate), sounds);
  player.repeat($("loop").checked);
  player.addEventListener("change", follow);
  $("voices").hidden = $("voice-keys").hidden = $("difference-figure").hidden = !marked;
  $("voices").querySelector(`[value=${player.voice}]`).checked = true;
  $("seek").max = player.duration;
  $("facts").replaceChildren();
  follow();
  draw();
  const shown = player;
  const seen = await analyse(original, marked);
  if (shown === player) pictures = seen;
  draw();
}

/** @param {any} detection whose places become regions of the waveform */
export function showPlaces(detection) {
  regions = detection.segments.map((/** @type {any} */ segment) => ({
    start: segment.start,
    end: segment.end,
    label: segment.message == null ? UNREAD_LABEL : quoted({ message: segment.message, kind: detection.kind }),
  }));
  for (const { start, end, label } of regions) {
    const message = label === UNREAD_LABEL ? "" : `: ${label}`;
    addFact("Marked", `${clock(start)} to ${clock(end)}${message}`, start);
  }
  draw();
}

/** @param {any} comparison what is told about the difference */
export function showFacts(comparison) {
  for (const { term, text, seconds } of factsOf(comparison)) addFact(term, text, seconds);
  ratios = comparison.noise_to_mask_over_time;
  $("masked-figure").hidden = !ratios.length;
  draw();
}

/** Stop what plays, since something else is to be heard. */
export const pause = () => player?.pause();

/** @param {() => void} quiet called when something begins to play here */
export function connect(quiet) {
  started = quiet;
  $("play").addEventListener("click", () => player?.toggle());
  $("loop").addEventListener("change", () => player?.repeat($("loop").checked));
  $("voices").addEventListener("change", (/** @type {any} */ event) => player?.choose(event.target.value));
  $("seek").addEventListener("input", () => player?.seek(Number($("seek").value)));
  $("listening").addEventListener("keydown", press);
  for (const canvas of ["waveform", "spectrum", "difference", "masked"]) $(canvas).addEventListener("click", seekTo);
  new ResizeObserver(draw).observe($("plots"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

/** @param {number} sampleRate */
function contextFor(sampleRate) {
  if (context?.sampleRate !== sampleRate) {
    context?.close();
    context = new AudioContext({ sampleRate });
  }
  return context;
}

/** @returns {Promise<Picture[]>} */
async function analyse(/** @type {AudioBuffer} */ original, /** @type {AudioBuffer | null | undefined} */ marked) {
  const channels = Array.from({ length: original.numberOfChannels }, (_, i) => original.getChannelData(i));
  const picture = async (/** @type {string} */ name, /** @type {Float32Array[]} */ heard) => {
    const seen = await spectrogram(heard, original.sampleRate, SPECTRUM_COLUMNS, HIGHEST_HERTZ);
    const high = Math.max(LEAST_PEAK_DBFS, 10 * Math.ceil(seen.peak / 10));
    return { name, spectrogram: seen, range: { low: high - RANGE_DB, high } };
  };
  const audio = await picture("spectrum", channels);
  if (!marked) return [audio];
  const difference = channels.map((samples, i) => {
    const others = marked.getChannelData(i);
    return samples.subarray(0, others.length).map((sample, at) => others[at] - sample);
  });
  return [audio, await picture("difference", difference)];
}

function draw() {
  if (!player) return;
  const [original] = sounds,
    { duration } = original;
  drawWaveform($("waveform"), original, regions);
  const places = regions.map(({ start, end, label }) => `${clock(start)} to ${clock(end)} ${label}`).join(", ");
  const note = places && `marked: ${places}`;
  $("waveform").setAttribute("aria-label", `Waveform of ${clock(duration)} of audio; ${note || "no place is marked"}.`);
  $("waveform-note").textContent = regions.length ? "coloured where it is marked" : "";
  for (const { name, spectrogram: seen, range } of pictures) {
    drawSpectrogram($(name), seen, range, duration);
    const what = name === "spectrum" ? "the audio" : "the difference between original and marked audio";
    const levels = `${signed(range.low)} to ${signed(range.high)} dBFS`;
    const kilohertz = Math.round(seen.hertz / 100) / 10;
    $(name).setAttribute("aria-label", `Spectrogram of ${what}: 0 to ${kilohertz} kHz, colours from ${levels}.`);
    const [low, ramp, high] = $(name).closest("figure").querySelector(".scale").children;
    low.textContent = signed(range.low);
    high.textContent = `${signed(range.high)} dBFS`;
    drawRamp(ramp);
    if (name === "difference") $("difference-note").textContent = loudness(range.high, pictures[0].range.high);
  }
  if (ratios.length) {
    drawMasked($("masked"), ratios, duration);
    const above = Math.round((100 * ratios.filter((ratio) => ratio > 0).length) / ratios.length);
    const label = `Difference over masking threshold: ${Math.max(...ratios).toFixed(1)} dB at most`;
    $("masked").setAttribute("aria-label", `${label}; above the threshold in ${above} % of the time.`);
  }
  movePlayhead();
}

/** @returns {string} how the colours of both spectrograms compare */
function loudness(/** @type {number} */ difference, /** @type {number} */ audio) {
  const gap = audio - difference;
  return gap > 0 ? `Drawn ${gap} dB louder than the audio above.` : "";
}

const signed = (/** @type {number} */ level) => String(level).replace("-", "−");

function follow() {
  if (!player) return;
  const { playing } = player;
  $("play").classList.toggle("playing", playing);
  $("play-label").textContent = playing ? "Pause" : "Play";
  movePlayhead();
  if (!playing) return;
  started();
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(track);
}

function track() {
  movePlayhead();
  if (player?.playing) frame = requestAnimationFrame(track);
}

function movePlayhead() {
  if (!player) return;
  const { position, duration } = player;
  const width = $("plots").clientWidth - GUTTER;
  const place = `translateX(${GUTTER - 1 + (width * position) / duration}px)`;
  for (const line of document.querySelectorAll(".playhead")) /** @type {HTMLElement} */ (line).style.transform = place;
  $("seek").value = position;
  $("seek").setAttribute("aria-valuetext", `${clock(position)} of ${clock(duration)}`);
  $("time").textContent = `${clock(position)} / ${clock(duration)}`;
}

function seekTo(/** @type {MouseEvent} */ event) {
  const { left, width } = $("waveform").getBoundingClientRect();
  const share = (event.clientX - left - GUTTER) / (width - GUTTER);
  player?.seek(share * player.duration);
  $("seek").focus();
}

function press(/** @type {KeyboardEvent} */ event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const ownKeys = target.matches("button, [type=checkbox]");
  const voice = Object.keys(VOICES)[Number(event.key) - 1];
  const step = { ArrowLeft: -STEP_SECONDS, ArrowRight: STEP_SECONDS }[event.key];
  if (!player || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === " " && !ownKeys) player.toggle();
  else if (voice && sounds.length > 1) $("voices").querySelector(`[value=${voice}]`).click();
  else if (step && !target.matches("[type=radio]")) player.seek(player.position + step);
  else return;
  event.preventDefault();
}

function addFact(/** @type {string} */ term, /** @type {string} */ text, /** @type {number | undefined} */ seconds) {
  const name = document.createElement("dt"),
    value = document.createElement("dd");
  name.textContent = term;
  value.textContent = text;
  if (seconds !== undefined) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "moment", textContent: "Listen" });
    button.setAttribute("aria-label", `Listen at ${clock(seconds)}`);
    button.addEventListener("click", () => {
      player?.seek(seconds);
      player?.play();
    });
    value.append(" ", button);
  }
  $("facts").append(name, value);
}
