// DraftSwitch: takes the draft away while the text goes on, and gives it back, where the server allows that.

import { Problem } from "./api.js";
import { find } from "./dom.js";

const PATH = "/demo/draft";

export class DraftSwitch {
  #button = find("draft-switch");
  #isTaken = false;

  constructor(api, fail) {
    this.#button.addEventListener("click", () => this.#set(api, this.#isTaken).catch(fail));
  }

  /** Show the button, where there is a draft to take and the key may take it. */
  async begin(api) {
    const settings = await api.get("/page/settings.json");
    if (!settings.demo_controls) return;
    try {
      await this.#set(api, null);
    } catch (error) {
      if (!(error instanceof Problem) || error.status === 401) throw error; // of others the page has no need
      this.#button.hidden = true;
    }
  }

  async #set(api, present) {
    const told = await api.ask(PATH, { present });
    this.#isTaken = told.taken > 0;
    this.#button.textContent = this.#isTaken ? "Give the draft back" : "Cut off the draft";
    this.#button.hidden = told.linked + told.absent + told.taken === 0;
  }
}
