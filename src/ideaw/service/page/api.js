// The server's routes as functions. Every request goes to the host that served the page; the token stays in memory.

import { UserError } from "./errors.js";

/** What the server, or the way to it, answers instead of a result: one line for the user. */
export class ApiError extends UserError {
  /**
   * @param {string} message one clear line
   * @param {number} status of HTTP; 0 if there was no answer
   */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** How the server's lines end that go with a header which tells when; the page tells it as a sentence of its own. */
const COME_AGAIN = /; (try again later|wait \d+ s)$/;

const UNREACHABLE = "The server does not answer. Is ideaw serve still running?";

const TOKEN_NEEDED = "This needs an access token: type it at the top of the page, and try again.";
export const UNAUTHORISED = 401;

let token = "";
let running = new AbortController();

/** @param {string} value the bearer token for all further requests; kept until the page is closed */
export function useToken(value) {
  token = value.trim();
}

/** Give up everything that is under way; its promises fail with an `AbortError`. */
export function cancel() {
  running.abort();
  running = new AbortController();
}

/** @returns {Promise<object>} model, version, limits and what else the controls need */
export const info = async () => (await request("info")).json();

/** @returns {Promise<File>} a recording to try, as WAV: coding it anew would change more than the mark does */
export async function sample() {
  const coded = await (await request("sample")).blob();
  return new File([await preview(coded)], "sample.wav");
}

/** @returns {Promise<ArrayBuffer>} the audio as a WAV file of 32-bit floats, at its own rate */
export const preview = async (/** @type {Blob} */ file) => (await request("preview", { file })).arrayBuffer();

/**
 * @param {File} file
 * @param {{message: string, kind: string, key?: File, snr?: number, audibility?: number}} settings
 * @returns {Promise<File>} the marked file, in the format of `file`
 */
export async function embed(file, settings) {
  const answer = await request("embed", { file, ...settings });
  return new File([await answer.blob()], attachmentName(answer) ?? file.name);
}

/** @returns {Promise<any>} the answer of `ideaw detect --json`, or the coarse one for strangers */
export const detect = async (/** @type {Blob} */ file, /** @type {{key?: File, speeds?: string}} */ settings) =>
  (await request("detect", { file, ...settings })).json();

/** @returns {Promise<any>} the answer of `ideaw verify --json`, or the coarse one for strangers */
export const verify = async (/** @type {Blob} */ file, /** @type {{key?: File, speeds?: string}} */ settings) =>
  (await request("verify", { file, ...settings })).json();

/** @returns {Promise<object>} the answer of `ideaw compare --json` */
export const compare = async (/** @type {Blob} */ original, /** @type {Blob} */ marked) =>
  (await request("compare", { original, marked })).json();

/** @returns {Promise<{id: string, label: string, summary: string}[]>} */
export const attacks = async () => (await request("attacks")).json();

/** @returns {Promise<Blob>} the attacked audio, a WAV file */
export const attack = async (/** @type {Blob} */ file, /** @type {string} */ id) =>
  (await request("attack", { file, attack: id })).blob();

/**
 * @param {string} route under /v1/
 * @param {Record<string, string | number | Blob | undefined>} [fields] of a form; without them it is a GET
 */
async function request(route, fields) {
  /** @type {RequestInit} */
  const options = { headers: token ? { Authorization: `Bearer ${token}` } : {}, signal: running.signal };
  if (fields) {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) {
      if (value instanceof Blob) form.append(name, value);
      else if (value !== undefined) form.append(name, String(value));
    }
    Object.assign(options, { method: "POST", body: form });
  }
  let answer;
  try {
    answer = await fetch(`/v1/${route}`, options);
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "AbortError") throw problem;
    throw new ApiError(UNREACHABLE, 0);
  }
  if (answer.status === UNAUTHORISED && !token) throw new ApiError(TOKEN_NEEDED, UNAUTHORISED);
  if (!answer.ok) throw new ApiError(await reason(answer), answer.status);
  return answer;
}

/** @param {Response} answer @returns {string | undefined} the name that the server gives its file */
function attachmentName(answer) {
  const header = answer.headers.get("Content-Disposition") ?? "";
  const encoded = /filename\*=utf-8''([^;]+)/i.exec(header);
  return encoded ? decodeURIComponent(encoded[1]) : /filename="([^"]+)"/.exec(header)?.[1];
}

/** @param {Response} answer @returns {Promise<string>} the server's line as a sentence, with when to try again */
async function reason(answer) {
  const { error } = await answer.json().catch(() => ({}));
  const line = error ?? `The server answers with an error (${answer.status}).`;
  const wait = Number(answer.headers.get("Retry-After"));
  const plain = line[0].toUpperCase() + line.slice(1).replace(/\.$/, "");
  return wait ? `${plain.replace(COME_AGAIN, "")}; try again in ${wait} s.` : `${plain}.`;
}
