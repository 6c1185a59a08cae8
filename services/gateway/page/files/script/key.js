// The caller's key: kept while the tab is open, and sent only to the gateway.

import { find } from "./dom.js";

const NAME = "outrider-key";

/** Follows the field; calls `changed` after each change. Returns a function that returns the key. */
export function followKey(changed) {
  const field = find("key");
  field.value = sessionStorage.getItem(NAME) ?? "";
  field.addEventListener("change", () => {
    sessionStorage.setItem(NAME, field.value.trim());
    changed();
  });
  find("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    find("key-box").open = false;
  });
  return () => field.value.trim();
}

export function askForKey() {
  find("key-box").open = true;
  find("key").focus();
}
