// DraftSwitch: disconnects the draft while the text continues, and connects it again, if the server allows it.

import { Problem } from "./request/api.js";
import { find } from "./dom.js";

const PATH = "/demo/draft";

export class DraftSwitch {
  #button = find("draft-switch");
  #isTaken = false;

  /** `changed` is called after each change, `fail` with the error of one that failed. */
  constructor(api, changed, fail) {
    this.#button.addEventListener("click", () => this.#set(api, this.#isTaken).then(changed).catch(fail));
  }

  /** Shows the button, if there is a draft and the key allows to disconnect it. */
  async begin(api) {
    const settings = await api.get("/page/settings.json");
    if (!settings.demo_controls) return;
    try {
      await this.#set(api, null);
    } catch (error) {
      if (!(error instanceof Problem) || error.status === 401) throw error; // without permission there is no button
      this.#button.hidden = true;
    }
  }

  async #set(api, present) {
    const { linked, absent, taken } = await api.ask(PATH, { present });
    this.#isTaken = taken > 0;
    this.#button.textContent = this.#isTaken ? "Connect the draft" : "Disconnect the draft";
    this.#button.hidden = linked + absent + taken === 0;
  }
}
