// How strong the mark is, in plain words: a few levels to choose from, each with its figure and what it costs.

const STEP_DB = 4;

/** @typedef {{label: string, hint: string, fields: {snr?: number, audibility?: number}}} Strength */

/**
 * The levels that are offered, the recommended one first.
 * @param {number} audibility noise to mask in dB, that the model recommends
 * @param {number} snr in dB, for those who want a fixed one
 * @returns {Strength[]}
 */
export function strengths(audibility, snr) {
  return [
    {
      label: "Standard",
      hint: `On average ${beside(audibility)} what the audio masks, in every second; single moments lie above it.`,
      fields: {},
    },
    {
      label: "Stronger",
      hint: `On average ${beside(audibility + STEP_DB)} what the audio masks: survives more, and may be heard.`,
      fields: { audibility: audibility + STEP_DB },
    },
    {
      label: "Fainter",
      hint: `On average ${beside(audibility - STEP_DB)} what the audio masks: harder to hear, and survives less.`,
      fields: { audibility: audibility - STEP_DB },
    },
    {
      label: "Fixed",
      hint: `At least ${snr} dB below the audio in every second, whatever that masks.`,
      fields: { snr },
    },
  ];
}

/** @param {number} decibels noise to mask @returns {string} the same in words */
function beside(decibels) {
  return `${Math.abs(decibels)} dB ${decibels < 0 ? "below" : "above"}`;
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
