// A new key, made in the browser: who never opened a terminal has no `ideaw keygen`. It is sent nowhere by that.

const KEY_BYTES = 32;
const KEY_NAME = "ideaw.key";

/** @returns {File} a key as `ideaw keygen` writes it: its bytes in hexadecimal digits */
export function makeKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  const digits = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return new File([`${digits}\n`], KEY_NAME, { type: "text/plain" });
}

/**
 * Choose a file as if its user had.
 * @param {HTMLInputElement} input
 * @param {File} file
 */
export function choose(input, file) {
  const chosen = new DataTransfer();
  chosen.items.add(file);
  input.files = chosen.files;
}

/** @param {File} file kept by the browser as a download */
export function keep(file) {
  const link = document.createElement("a");
  Object.assign(link, { href: URL.createObjectURL(file), download: file.name });
  link.click();
  URL.revokeObjectURL(link.href);
}
