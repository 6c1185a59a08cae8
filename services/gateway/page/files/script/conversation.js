// Conversation: the turns so far, which nobody but this page remembers.

import { find, make } from "./dom.js";

export class Conversation {
  #messages = [];
  #asked = null; // what is being answered

  /** The messages with one more of the user's, as they are now shown; what answers it stands below them. */
  ask(prompt) {
    const system = find("system").value;
    const before = system && !this.#messages.length ? [{ role: "system", content: system }] : this.#messages;
    const messages = [...before, { role: "user", content: prompt }];
    this.#asked = messages;
    this.#show(messages);
    return messages;
  }

  /** Keep what was asked and answered, if it was not forgotten meanwhile. */
  keep(messages, answer) {
    if (this.#asked === messages) this.#messages = [...messages, { role: "assistant", content: answer }];
  }

  forget() {
    this.#messages = [];
    this.#asked = null;
    this.#show([]);
  }

  #show(messages) {
    const turns = messages.map(({ role, content }) => make("li", { "data-role": role }, content));
    find("turns").replaceChildren(...turns);
    find("turns").hidden = find("forget").hidden = turns.length === 0;
  }
}
