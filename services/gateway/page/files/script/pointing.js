// Pointing: highlights a pass and selects a token, by pointer or by keys.

import { find } from "./dom.js";
import { milliseconds } from "./plots.js";
import { showToken } from "./token_panel.js";

const STEPS = { ArrowLeft: -1, ArrowRight: 1 };

export class Pointing {
  #views;
  #chosen = null; // a token
  #pass = null;

  /** `views()` returns the views of the shown answers. */
  constructor(views) {
    this.#views = views;
    for (const place of [find("answers"), find("strip")]) {
      place.addEventListener("pointerover", ({ target }) => this.#point(...this.#found(target)));
      place.addEventListener("pointerleave", () => this.#point(null, null));
    }
    find("answers").addEventListener("click", ({ target }) => {
      const view = views().find((one) => one.tokenAt(target));
      if (view) this.#choose(view, view.tokenAt(target));
    });
    find("answers").addEventListener("keydown", (event) => this.#step(event, this.#stepToken));
    find("strip").addEventListener("keydown", (event) => this.#step(event, this.#stepPass));
  }

  #found(element) {
    for (const view of this.#views()) {
      const pass = view.tokenAt(element)?.pass ?? view.passAt(element);
      if (pass) return [view, pass];
    }
    return [null, null];
  }

  #point(view, pass) {
    for (const one of this.#views()) one.point(one === view ? pass : null);
    if (!pass) return;
    this.#pass = pass;
    find("pass-details").textContent = details(pass);
  }

  #choose(view, token) {
    for (const one of this.#views()) one.choose(one === view ? token : null);
    this.#chosen = token;
    if (token.pass) this.#point(view, token.pass);
    showToken(token);
  }

  #step(event, walk) {
    if (!(event.key in STEPS) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    walk.call(this, event.target, STEPS[event.key]);
  }

  #stepToken(element, step) {
    const view = this.#views().find((one) => one.text === element);
    const tokens = view?.answer.tokens ?? [];
    const at = tokens.indexOf(this.#chosen);
    const next = tokens[at < 0 ? 0 : Math.min(Math.max(at + step, 0), tokens.length - 1)];
    if (next) this.#choose(view, next);
  }

  #stepPass(_, step) {
    const view = this.#views().at(-1);
    const passes = view?.answer.passes ?? [];
    const at = passes.indexOf(this.#pass);
    const next = passes[at < 0 ? 0 : Math.min(Math.max(at + step, 0), passes.length - 1)];
    if (!next) return;
    this.#point(view, next);
    view.reveal(next);
  }
}

function details({ index, tokens, report, isAfterAlternate }) {
  const source = isAfterAlternate ? "the draft, after an alternate" : `the ${report.source}`;
  const predicted = report.predicted ? `${report.accepted} of ${report.predicted} accepted, by ${source}` : "nothing predicted";
  const host = report.host === null ? "" : `, ${milliseconds(report.host)} between`;
  return `${index + 1}: ${tokens.length} tokens; ${predicted}; ${milliseconds(report.waiting)} waited, `
    + `${milliseconds(report.verifying)} computed${host}`;
}
