// How long a message is, and what fits: told while one types, so that nothing has to be refused afterwards.

/**
 * @typedef {object} Capacity what the server says that its model holds
 * @property {number} bytes_in_every_second of a message that every second carries
 * @property {number} bits_in_every_second likewise, for messages written in bits
 * @property {number} bytes_per_second that a longer message has in each second
 * @property {number} overhead_bytes that a longer message costs once
 * @property {number} max_seconds that a longer message can be spread over; 0 if the model has no long ones
 */

/** @typedef {{fits: boolean, text: string}} Measured */

const BITS_PER_BYTE = 8;

/**
 * @param {string} message as typed
 * @param {string} kind text, hex or bits
 * @param {number} seconds of the audio
 * @param {Capacity} capacity
 * @returns {Measured}
 */
export function measure(message, kind, seconds, capacity) {
  if (!message) return { fits: false, text: hint(kind, seconds, capacity) };
  if (kind === "bits" && /[^01]/.test(message)) return { fits: false, text: "Bits are written in 0 and 1." };
  const digits = message.replace(/\s/g, "");
  if (kind === "hex" && (/[^0-9a-f]/i.test(digits) || digits.length % 2)) {
    return { fits: false, text: "Bytes are written in pairs of hexadecimal digits, as in 0a1b." };
  }
  const bits = kind === "bits" ? message.length : BITS_PER_BYTE * byteCount(message, kind);
  const short = kind === "bits" ? capacity.bits_in_every_second : BITS_PER_BYTE * capacity.bytes_in_every_second;
  const used = kind === "bits" ? count(bits, "bit") : count(bits / BITS_PER_BYTE, "byte");
  if (bits <= short) return { fits: true, text: `${used}: in every second of the audio.` };
  const bytes = Math.ceil(bits / BITS_PER_BYTE);
  const needed = Math.ceil((bytes + capacity.overhead_bytes) / capacity.bytes_per_second);
  const most = longest(seconds, capacity);
  if (bytes > most) return { fits: false, text: `${used}: too long. ${hint(kind, seconds, capacity)}` };
  return { fits: true, text: `${used}: spread over ${needed} seconds, of which a copy must hold as many.` };
}

/** @returns {number} bytes of the longest message for so many seconds */
function longest(/** @type {number} */ seconds, /** @type {Capacity} */ capacity) {
  const spread = Math.min(Math.floor(seconds), capacity.max_seconds) * capacity.bytes_per_second;
  return Math.max(capacity.bytes_in_every_second, spread - capacity.overhead_bytes);
}

function hint(/** @type {string} */ kind, /** @type {number} */ seconds, /** @type {Capacity} */ capacity) {
  const short = kind === "bits" ? `${capacity.bits_in_every_second} bits` : `${capacity.bytes_in_every_second} bytes`;
  const most = longest(seconds, capacity);
  return `Up to ${short} are in every second; this audio holds ${most} bytes at most.`;
}

function byteCount(/** @type {string} */ message, /** @type {string} */ kind) {
  return kind === "hex" ? message.replace(/\s/g, "").length / 2 : new TextEncoder().encode(message).length;
}

function count(/** @type {number} */ amount, /** @type {string} */ unit) {
  return `${amount} ${unit}${amount === 1 ? "" : "s"}`;
}
