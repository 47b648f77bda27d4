// The page: what is loaded, what was asked, and which part shows it. The last thing that is asked for wins.

import * as api from "./api.js";
import { $ } from "./elements.js";
import { UserError } from "./errors.js";
import * as listening from "./listening.js";
import { measure } from "./message.js";
import * as newKey from "./newkey.js";
import * as playground from "./playground.js";
import * as source from "./source.js";
import { offer, strengths } from "./strength.js";
import * as verdict from "./verdict.js";
import { decodeFloatWav } from "./wav.js";
import { answerOf, duration, fileSize, quoted } from "./words.js";

const LOSSY = /\.(mp3|ogg|opus|m4a|aac)$/i;
const LOOPBACK = /^(localhost|127\.[\d.]+|\[::1\])$/;
/** @type {import("./words.js").Answer} */
const MARKED = { title: "Marked.", reason: "The mark is looked for in the marked file…", note: "", tone: "none" };
const UNREAD = {
  title: "Marked, but the message cannot be read back.",
  note: "A shorter message, a stronger mark or longer audio would help.",
};
const OWN_MISTAKE = "Something went wrong on this page itself; reload it, and try again.";
const TOO_LARGE = 413;

/** @type {File | null} what was chosen, and what was made of it */
let file = null;
/** @type {File | null} */
let marked = null;
/** @type {AudioBuffer | null} of `file`, unless that is too long to be drawn and played */
let sound = null;
/** @type {any} what the server says about itself */
let server;
let downloadUrl = "";
let task = 0;
let strength = () => ({});
/** @type {(() => void) | null} null while the playground may not be used */
let clearAttacks = null;

/**
 * Do something that takes a moment; what was under way is given up.
 * @param {string} text what is told meanwhile
 * @param {() => Promise<void>} work
 */
async function run(text, work) {
  api.cancel();
  const mine = ++task;
  $("status").textContent = text;
  $("problem").hidden = true;
  try {
    await work();
  } catch (problem) {
    if (mine === task) complain(problem);
  }
  if (mine === task) $("status").textContent = "";
}

function complain(/** @type {any} */ problem) {
  if (problem.status === api.UNAUTHORISED) {
    $("access").hidden = false;
    $("token").focus();
  }
  const known = problem instanceof UserError;
  if (!known) console.error(problem);
  $("problem").textContent = known ? problem.message : OWN_MISTAKE;
  $("problem").hidden = false;
}

/** @param {File} chosen */
async function load(chosen) {
  const { bytes } = server.limits;
  if (chosen.size > bytes) {
    throw new UserError(`${chosen.name} has ${fileSize(chosen.size)}; at most ${fileSize(bytes)} are taken here.`);
  }
  await source.stopRecording();
  const decoded = await decode(chosen);
  [file, marked, sound] = [chosen, null, decoded];
  verdict.clear();
  document.body.classList.add("working");
  $("empty").hidden = $("answer").hidden = $("playground").hidden = true;
  $("loaded").hidden = $("work").hidden = false;
  $("file-name").textContent = file.name;
  $("file-facts").textContent = `${sound ? describe(sound) : tooLong()}, ${fileSize(file.size)}`;
  tellCapacity();
  await listening.show(sound);
}

/** @param {File} heard @returns {Promise<AudioBuffer | null>} null where it is too long to be drawn and played */
async function decode(heard) {
  try {
    return decodeFloatWav(await api.preview(heard));
  } catch (problem) {
    if (problem instanceof api.ApiError && problem.status === TOO_LARGE) return null;
    throw problem;
  }
}

function describe(/** @type {AudioBuffer} */ { duration: seconds, sampleRate, numberOfChannels: count }) {
  const channels = { 1: "mono", 2: "stereo" }[count] ?? `${count} channels`;
  return `${duration(seconds)}, ${sampleRate / 1000} kHz, ${channels}`;
}

function tooLong() {
  return `too long to be drawn and played here; up to ${longest()} can be marked and searched`;
}

async function mark() {
  const measured = tellCapacity();
  if (!$("message").value || !measured.fits) {
    $("message").focus();
    throw new UserError($("message").value ? measured.text : "Give a message to put into the audio.");
  }
  $("answer").hidden = true;
  verdict.clear();
  const original = /** @type {File} */ (file);
  const settings = { message: $("message").value, kind: $("kind").value, key: key(), ...strength() };
  marked = await api.embed(original, settings);
  const shown = listening.show(sound, sound && (await decode(marked)), LOSSY.test(marked.name));
  offerDownload(marked);
  tell(MARKED);
  const detection = await search(marked);
  const answer = answerOf(detection, searched(marked));
  if (detection.status === "found") answer.title = `Marked, and read back: ${quoted(detection)}`;
  else Object.assign(answer, UNREAD);
  tell(answer);
  $("playground-lead").textContent = "Change the marked audio, and see whether the mark is still found.";
  if (sound) listening.showFacts(await api.compare(original, marked));
  await shown;
}

async function look() {
  marked = null;
  $("answer").hidden = $("download").hidden = true;
  verdict.clear();
  const shown = listening.show(sound);
  const opened = /** @type {File} */ (file);
  const detection = await search(opened);
  tell(answerOf(detection, searched(opened)));
  if (detection.status === "none") $("playground").hidden = true;
  if (server.verifies) verdict.show(await api.verify(opened, settingsOfSearch()));
  $("playground-lead").textContent = "Change this audio, and see whether its mark is still found.";
  await shown;
}

/** @param {File} heard */
async function search(heard) {
  clearAttacks?.();
  const detection = await api.detect(heard, settingsOfSearch());
  listening.showPlaces(detection);
  $("playground").hidden = !clearAttacks || !sound;
  return detection;
}

const key = () => $("key").files[0];
const audioSeconds = () => sound?.duration ?? Infinity;
const settingsOfSearch = () => ({ key: key(), speeds: $("speeds").value });

/** @param {File} heard */
function searched({ name }) {
  return { name, seconds: audioSeconds(), speeds: $("speeds").value, key: keyName().used };
}

/** @param {import("./words.js").Answer} answer */
function tell({ title, reason, note, tone }) {
  $("answer").hidden = false;
  $("answer").className = `answer card ${tone}`;
  $("answer-title").textContent = title;
  $("answer-reason").textContent = reason;
  $("answer-note").textContent = note;
  $("answer").scrollIntoView({ block: "nearest" });
}

/** @param {File} made */
function offerDownload(made) {
  URL.revokeObjectURL(downloadUrl);
  downloadUrl = URL.createObjectURL(made);
  Object.assign($("download"), { href: downloadUrl, download: made.name, hidden: false });
}

function tellCapacity() {
  const measured = measure($("message").value, $("kind").value, audioSeconds(), server.capacity);
  $("fits").textContent = measured.text;
  const wrong = $("message").value !== "" && !measured.fits;
  $("fits").classList.toggle("wrong", wrong);
  $("message").setAttribute("aria-invalid", String(wrong));
  return measured;
}

function connectForms() {
  const submit = (/** @type {string} */ form, /** @type {() => void} */ act) =>
    $(form).addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      act();
    });
  submit("mark", () => run("Marking…", mark));
  submit("look", () => run("Looking for a mark…", look));
  submit("access", () => run("Asking the server…", useToken));
  $("message").addEventListener("input", tellCapacity);
  $("kind").addEventListener("change", tellCapacity);
  tellKey();
  $("key").addEventListener("change", tellKey);
  $("new-key").addEventListener("click", () => {
    const made = newKey.makeKey();
    newKey.choose($("key"), made);
    newKey.keep(made);
    tellKey();
  });
  $("no-key").addEventListener("click", () => {
    $("key").value = "";
    tellKey();
    $("key").focus();
  });
}

function tellKey() {
  $("no-key").hidden = !key();
  $("key-name").textContent = keyName().shown;
}

/** @returns {{shown: string, used: string}} which key is used, alone and within a sentence */
function keyName() {
  if (key()) return { shown: key().name, used: "your key" };
  return server.own_key
    ? { shown: "that of this server", used: "the server's key" }
    : { shown: "the public one, that everybody has", used: "the public key" };
}

async function useToken() {
  api.useToken($("token").value);
  try {
    await connectPlayground();
  } catch (problem) {
    api.useToken(""); // without one, more is open than with one that is not known
    throw problem;
  }
  $("access").hidden = true;
}

async function start() {
  const host = LOOPBACK.test(location.hostname) ? "this computer" : location.hostname;
  $("promise").textContent = `What you open here goes to ${host} and nowhere else, and is not kept there.`;
  server = await api.info();
  if (!server.token_needed) await connectPlayground();
  $("about").textContent = `Model ${server.model}, version ${server.version}`;
  $("limits").textContent = `WAV, FLAC, MP3, Ogg and others, up to ${fileSize(server.limits.bytes)} and ${longest()}`;
  $("access").hidden = !server.token_needed;
  strength = offer($("strengths"), $("strength-hint"), strengths(server.audibility, server.snr));
  listening.connect(playground.pause);
  connectForms();
  source.connect(run, load); // the last, since what it begins ends everything that is still under way
}

async function connectPlayground() {
  const bench = {
    file: () => marked ?? /** @type {File} */ (file),
    settings: settingsOfSearch,
    run,
    quiet: listening.pause,
  };
  const attacks = await api.attacks();
  clearAttacks ??= playground.connect($("attacks"), $("all-attacks"), attacks, bench);
}

/** @returns {string} how long audio may be */
function longest() {
  const { seconds } = server.limits;
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
}

await run("Starting…", start);
