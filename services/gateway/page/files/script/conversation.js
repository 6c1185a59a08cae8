// Conversation: the turns so far, which only this page stores.

import { find, make } from "./dom.js";

export class Conversation {
  #messages = [];
  #asked = null; // the messages that are being answered

  /** Adds a message of the user, shows the conversation, and returns its messages; the answer appears below them. */
  ask(prompt) {
    const system = find("system").value;
    const before = system && !this.#messages.length ? [{ role: "system", content: system }] : this.#messages;
    const messages = [...before, { role: "user", content: prompt }];
    this.#asked = messages;
    this.#show(messages);
    return messages;
  }

  /** Keeps the messages and their answer, unless the conversation was restarted meanwhile. */
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
