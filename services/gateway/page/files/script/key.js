// The caller's key: kept for as long as the tab is open, and sent to nobody but the gateway.

import { find } from "./dom.js";

const NAME = "outrider-key";

/** Follow the field; `changed` is called behind each change. Returns what gives the key. */
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
