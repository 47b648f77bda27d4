// Where audio comes from: a file that is chosen or dropped anywhere, the microphone, or the sample.

import * as api from "./api.js";
import { $ } from "./elements.js";
import { Recording } from "./recorder.js";
import { clock } from "./words.js";

/** @typedef {(text: string, work: () => Promise<void>) => Promise<void>} Run does something and tells it meanwhile */

/** @type {Recording | null} */
let recording = null;

/**
 * Make the controls work; called once.
 * @param {Run} run
 * @param {(chosen: File) => Promise<void>} load takes what was chosen
 */
export function connect(run, load) {
  const read = (/** @type {File | undefined} */ chosen) => {
    if (chosen) run(`Reading ${chosen.name}…`, () => load(chosen));
  };
  $("file").addEventListener("change", () => {
    read($("file").files[0]);
    $("file").value = "";
  });
  $("sample").addEventListener("click", () => run("Reading the sample…", async () => load(await api.sample())));
  $("record").addEventListener("click", async () => {
    if (recording) read(await stopRecording());
    else run("Opening the microphone…", startRecording);
  });
  connectDrop(read);
}

/** Let the microphone go, if it is open. @returns {Promise<File | undefined>} what it heard */
export async function stopRecording() {
  const ended = recording;
  recording = null;
  $("record").textContent = "Record";
  $("meter").hidden = true;
  return ended?.stop();
}

async function startRecording() {
  const started = await Recording.start((seconds, peak) => {
    $("recorded").textContent = clock(seconds);
    $("level").value = peak;
  });
  await stopRecording(); // another one, if the button was pressed twice
  recording = started;
  $("record").textContent = "Stop recording";
  $("recorded").textContent = clock(0);
  $("meter").hidden = false;
}

function connectDrop(/** @type {(dropped: File | undefined) => void} */ read) {
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    $("drop").classList.add("over");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) $("drop").classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    $("drop").classList.remove("over");
    read(event.dataTransfer?.files[0]);
  });
}
