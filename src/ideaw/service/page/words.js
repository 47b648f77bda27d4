// What the answers of the server mean, in sentences that claim no more than they show.

/** @typedef {{title: string, reason: string, note: string, tone: "found" | "unreadable" | "none"}} Answer */
/** @typedef {{start: number, end: number, message?: string | null, message_ok?: boolean}} Segment */

const NOTES = {
  found: "A found mark alone does not prove who made it: it can be copied from other audio.",
  unreadable: "Too little may be left of it, or a part of a long message is missing.",
  none: "This does not show that there never was one: marks can be removed, and those of other keys are not found.",
};

/** Share of the audio from which on all of it is said to be marked. */
const MOST = 0.95;

/** From this p-value on a result is nothing that audio without a mark would not give often. */
const USUAL_P = 0.1;

const SEARCHED = {
  none: "at its own speed",
  near: "at speeds within 6 % of its own",
  all: "at speeds from 0.8 to 1.25 times its own",
};

/**
 * @param {any} detection as the server gives it; strangers get no p-value
 * @param {{name: string, seconds: number, speeds: keyof typeof SEARCHED, key: string}} search what was searched;
 *   its length may be infinite
 * @returns {Answer}
 */
export function answerOf(detection, search) {
  const status = /** @type {Answer["tone"]} */ (detection.status);
  const chance = probability(detection.p_value);
  if (status === "none") {
    const usual = hint(detection.p_value, chance);
    const reason = `Looked in ${search.name} for marks of ${search.key}, ${SEARCHED[search.speeds]}.${usual}`;
    return { title: "No mark found.", reason, note: NOTES.none, tone: status };
  }
  const title = status === "found" ? `Found: ${quoted(detection)}` : "A mark is there, but its message cannot be read.";
  const unmarked =
    chance && ` Audio without a mark gives a result this strong with a probability of at most ${chance}.`;
  const playback = fast(detection.speed) + stretched(detection.tempo);
  const reason = `${where(detection, search)} is marked with ${search.key}${playback}.${unmarked}`;
  return { title, reason, note: NOTES[status], tone: status };
}

/** @param {any} detection @returns {string} the outcome of an attack, in a few words */
export function outcomeOf(detection) {
  if (detection.status === "found") return `Still found: ${quoted(detection)}`;
  return detection.status === "none" ? "Lost: no mark found" : "A mark is there, not readable";
}

/** @param {{message: string | null, kind?: string | null}} detection @returns {string} */
export function quoted({ message, kind }) {
  return kind === "bytes" || kind === "bits" ? `${kind} ${message}` : `“${message}”`;
}

/**
 * @param {any} comparison as the server gives it
 * @returns {{term: string, text: string, seconds?: number}[]} facts, some with a moment to listen to
 */
export function factsOf(comparison) {
  if (comparison.equal) return [{ term: "Difference", text: "None: both recordings are equal." }];
  const facts = [];
  const { snr, lowest_snr: lowest, noise_snr: noise, modulation, masked, noise_to_mask: ratio } = comparison;
  const { most_audible_noise_to_mask: highest, most_audible_seconds: seconds } = comparison;
  if (snr != null) {
    const least = lowest == null ? "" : `, and ${lowest.toFixed(1)} dB in the least favourable second`;
    const rest = noise == null ? "" : ` Without slow changes of loudness it is ${noise.toFixed(1)} dB below.`;
    facts.push({ term: "Level", text: `What changed is ${snr.toFixed(1)} dB below the audio${least}.${rest}` });
  }
  if (modulation != null) {
    const side = modulation > 0 ? "above" : "below";
    const level = `${Math.abs(modulation).toFixed(1)} dB ${side} what is just heard`;
    facts.push({ term: "Loudness", text: `Its slow changes are ${level}, in 99 % of all moments and bands.` });
  }
  if (masked != null) {
    const mean = ratio == null ? "" : ` On average what is added besides is ${overCurve(ratio)}.`;
    const share = `${Math.round(100 * masked)} % of all moments and bands of frequency lie below what the audio masks.`;
    facts.push({ term: "Masked", text: share + mean });
  }
  if (highest != null && seconds != null) {
    const text = `At ${clock(seconds)} what is added besides slow changes of loudness is ${overCurve(highest)}.`;
    facts.push({ term: "Most audible", text, seconds });
  }
  return facts;
}

/** @param {number} seconds @returns {string} such as 1:05.2 */
export function clock(seconds) {
  const tenths = Math.floor(10 * seconds + 1e-6);
  const rest = (tenths % 600) / 10;
  return `${Math.floor(tenths / 600)}:${rest.toFixed(1).padStart(4, "0")}`;
}

/** @param {number} seconds @returns {string} such as 6.0 s or 1:05.2 min */
export function duration(seconds) {
  return seconds < 60 ? `${seconds.toFixed(1)} s` : `${clock(seconds)} min`;
}

/** @param {number} bytes @returns {string} */
export function fileSize(bytes) {
  const [count, unit] = bytes < 1e6 ? [bytes / 1e3, "kB"] : [bytes / 1e6, "MB"];
  return `${count < 10 ? Number(count.toFixed(1)) : Math.round(count)} ${unit}`;
}

/** @param {number} ratio in dB @returns {string} */
function overCurve(ratio) {
  const side = ratio > 0 ? "above" : "below";
  return `${Math.abs(ratio).toFixed(1)} dB ${side} the masking threshold${ratio > 0 ? ", so it may be heard" : ""}`;
}

/** @param {number | null | undefined} p @param {string} chance the same in words @returns {string} where none is found */
function hint(p, chance) {
  if (p == null) return "";
  if (p >= USUAL_P) return " Nothing in it hints at one: this is what audio without a mark looks like.";
  return ` Audio without a mark gives a result this strong with a probability of ${chance}.`;
}

/** @param {number | null | undefined} p @returns {string} empty where the server does not tell */
function probability(p) {
  if (p == null) return "";
  if (p >= USUAL_P) return `${Math.ceil(100 * p)} %`;
  if (p >= 1e-4) return `1 in ${Math.floor(1 / p).toLocaleString("en")}`;
  const digits = String(Math.floor(-Math.log10(p)));
  return `1 in 10${[...digits].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).join("")}`;
}

/** @param {{segments: Segment[]}} detection @param {{name: string, seconds: number}} search @returns {string} */
function where({ segments }, { name, seconds }) {
  const marked = segments.reduce((sum, { start, end }) => sum + end - start, 0);
  if (!segments.length) return name;
  if (marked > MOST * seconds) return `All of ${name}`;
  return `${marked.toFixed(1)} s of ${Number.isFinite(seconds) ? `${seconds.toFixed(1)} s in ` : ""}${name}`;
}

/** @param {number | undefined} tempo @returns {string} */
function stretched(tempo) {
  return tempo == null || tempo === 1 ? "" : `, and played at ${tempo.toFixed(3)} times its tempo`;
}

/** @param {number | undefined} speed @returns {string} */
function fast(speed) {
  return speed == null || speed === 1 ? "" : `, and played ${speed.toFixed(3)} times as fast`;
}
