// Copy: a button that copies a text.

import { make } from "./dom.js";

const SAID = 1500; // milliseconds that the button shows what came of it

/** Makes the button for the text that `text()` returns when it is clicked. */
export function copyButton(text) {
  const button = make("button", { type: "button", class: "plain copy" }, "Copy");
  button.hidden = !navigator.clipboard; // a page from another machine has one only over TLS
  button.addEventListener("click", async () => {
    button.textContent = await navigator.clipboard.writeText(text()).then(() => "Copied", () => "Not allowed");
    setTimeout(() => (button.textContent = "Copy"), SAID);
  });
  return button;
}
