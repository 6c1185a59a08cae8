// Replay: shows the passes of an answer once more, slowly enough to follow: first the predictions, then the verdict.

import { pause } from "../pause.js";

const PREDICTED = 600; // milliseconds in which predictions are shown as ghost text
const JUDGED = 900; // milliseconds in which accepted and rejected ones are shown

export class Replay {
  #view = null;
  #control = null;
  #point;

  /** `point(view, pass)` describes a pass. */
  constructor(point) {
    this.#point = point;
  }

  /** Shows the whole text again. */
  stop() {
    this.#control?.abort();
    this.#view?.text.end();
    this.#view = this.#control = null;
  }

  /** Shows all passes of an answer, unless it is stopped before; a replay that runs already is stopped. */
  async play(view) {
    this.stop();
    const { signal } = (this.#control = new AbortController());
    this.#view = view;
    view.showTokens(true);
    try {
      for (const pass of view.answer.passes) await this.#show(pass, signal);
      this.stop();
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #show(pass, signal) {
    this.#point(this.#view, pass);
    if (pass.report.predicted) {
      this.#view.text.show(pass, false);
      await pause(PREDICTED, signal);
    }
    this.#view.text.show(pass, true);
    await pause(JUDGED, signal);
  }
}
