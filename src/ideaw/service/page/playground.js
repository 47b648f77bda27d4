// The playground: one button for each attack; what it leaves of the mark is told beside it, and can be heard and kept.

import * as api from "./api.js";
import { outcomeOf } from "./words.js";

/**
 * @typedef {object} Bench what the playground works with, asked anew for every attack
 * @property {() => File} file that is attacked
 * @property {() => object} settings of the search
 * @property {(text: string, work: () => Promise<void>) => Promise<void>} run tells that something is under way
 * @property {() => void} quiet silences everything else
 */

const UNPROCESSABLE = 422;

const audio = new Audio();

/**
 * @param {HTMLElement} list that is filled
 * @param {HTMLElement} all the button that tries all
 * @param {{id: string, label: string, summary: string}[]} attacks
 * @param {Bench} bench
 * @returns {() => void} forgets all outcomes, since the audio is another
 */
export function connect(list, all, attacks, bench) {
  const rows = attacks.map((attack) => makeRow(attack, bench));
  list.append(...rows.map(({ item }) => item));
  all.addEventListener("click", () =>
    bench.run("Attacking…", async () => {
      for (const row of rows) await row.attempt();
    }),
  );
  return () => rows.forEach(({ clear }) => clear());
}

function makeRow(/** @type {{id: string, label: string, summary: string}} */ attack, /** @type {Bench} */ bench) {
  const item = document.createElement("li");
  const button = make("button", { type: "button", className: "try", textContent: attack.label });
  const summary = make("p", { className: "soft", textContent: attack.summary });
  const result = make("div", {});
  summary.id = `about-${attack.id}`;
  button.setAttribute("aria-describedby", summary.id);
  result.setAttribute("role", "status");
  item.append(button, summary, result);

  let url = "";
  function clear() {
    audio.pause();
    URL.revokeObjectURL(url);
    result.replaceChildren();
  }
  async function attempt() {
    clear();
    const file = bench.file();
    const attacked = await api.attack(file, attack.id);
    const { status, text } = await search(attacked, bench.settings());
    url = URL.createObjectURL(attacked);
    const outcome = make("p", { className: `outcome ${status}`, textContent: text });
    const name = `${file.name.replace(/\.[^.]*$/, "")}-${attack.id}.wav`;
    const download = make("a", { href: url, download: name, className: "button", textContent: "Download" });
    download.setAttribute("aria-label", `Download the audio after ${attack.label}`);
    const buttons = make("div", { className: "row" });
    buttons.append(makePlayButton(url, attack.label, bench.quiet), download);
    result.replaceChildren(outcome, buttons);
  }
  button.addEventListener("click", () => bench.run(`Attacking: ${attack.label}…`, attempt));
  return { item, attempt, clear };
}

/**
 * @param {Blob} attacked
 * @param {object} settings
 * @returns {Promise<{status: string, text: string}>} what is left of the mark; audio that became too short tells so
 */
async function search(attacked, settings) {
  try {
    const detection = await api.detect(new File([attacked], "attacked.wav"), settings);
    return { status: detection.status, text: outcomeOf(detection) };
  } catch (problem) {
    if (!(problem instanceof api.ApiError) || problem.status !== UNPROCESSABLE) throw problem;
    return { status: "none", text: `It cannot be searched. ${problem.message}` };
  }
}

function makePlayButton(/** @type {string} */ url, /** @type {string} */ label, /** @type {() => void} */ quiet) {
  const button = make("button", { type: "button", textContent: "Play" });
  button.setAttribute("aria-label", `Play the audio after ${label}`);
  button.addEventListener("click", async () => {
    if (audio.src === url && !audio.paused) return audio.pause();
    quiet();
    audio.src = url;
    audio.onpause = () => void (button.textContent = "Play");
    button.textContent = "Pause";
    await audio.play();
  });
  return button;
}

/** Stop what plays, since something else is to be heard. */
export const pause = () => audio.pause();

/** @param {string} name of an element @param {object} properties @returns {any} */
function make(name, properties) {
  return Object.assign(document.createElement(name), properties);
}
