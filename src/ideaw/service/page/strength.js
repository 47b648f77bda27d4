// How strong the mark is, in plain words: a few levels to choose from, each with its figure and what it costs.

const STRONGER_DB = 6;
const FAINTER_DB = 7;
const NOISE_TO_MASK_DB = -2;

/** @typedef {{label: string, hint: string, fields: {snr?: number, audibility?: number}}} Strength */

/** @param {number} snr in dB, that the model recommends @returns {Strength[]} the recommended one first */
export function strengths(snr) {
  return [
    {
      label: "Standard",
      hint: `Every second of the mark is at least ${snr} dB below the audio, as the model recommends.`,
      fields: {},
    },
    {
      label: "Stronger",
      hint: `At least ${snr - STRONGER_DB} dB below the audio: survives more, and may be heard in soft moments.`,
      fields: { snr: snr - STRONGER_DB },
    },
    {
      label: "Fainter",
      hint: `At least ${snr + FAINTER_DB} dB below the audio: harder to hear, and survives less.`,
      fields: { snr: snr + FAINTER_DB },
    },
    {
      label: "By hearing",
      hint: `A model of hearing sets every second to ${-NOISE_TO_MASK_DB} dB below what is masked: louder or fainter.`,
      fields: { audibility: NOISE_TO_MASK_DB },
    },
  ];
}

/**
 * Fill the choice on the page.
 * @param {HTMLElement} group
 * @param {HTMLElement} hint where the chosen one is explained
 * @param {Strength[]} offered
 * @returns {() => Strength["fields"]} what is chosen, as the server wants it
 */
export function offer(group, hint, offered) {
  const inputs = offered.map(({ label }, i) => {
    const input = document.createElement("input");
    Object.assign(input, { type: "radio", name: "strength", value: String(i), checked: i === 0 });
    const text = document.createElement("span");
    text.textContent = label;
    const frame = document.createElement("label");
    frame.append(input, text);
    group.append(frame);
    return input;
  });
  const chosen = () => offered[inputs.findIndex((input) => input.checked)];
  const explain = () => void (hint.textContent = chosen().hint);
  group.addEventListener("change", explain);
  explain();
  return () => chosen().fields;
}
