// Conversation: the messages so far, which only this page stores.

import { find } from "../dom.js";

export class Conversation {
  #messages = [];
  #asked = null; // the messages that are being answered

  get isBegun() {
    return this.#messages.length > 0;
  }

  /** Returns the messages so far with a new one of the user. */
  ask(prompt) {
    const system = find("system").value;
    const before = system && !this.isBegun ? [{ role: "system", content: system }] : this.#messages;
    this.#asked = [...before, { role: "user", content: prompt }];
    return this.#asked;
  }

  /** Whether the conversation was not restarted since it asked these messages. */
  isAsking(messages) {
    return this.#asked === messages;
  }

  /** Keeps the messages and their answer, unless the conversation was restarted meanwhile. */
  keep(messages, answer) {
    if (this.isAsking(messages)) this.#messages = [...messages, { role: "assistant", content: answer }];
  }

  forget() {
    this.#messages = [];
    this.#asked = null;
  }
}
