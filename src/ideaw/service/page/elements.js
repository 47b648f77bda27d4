// Elements of the page, of any kind, by their id.

export const $ = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));
