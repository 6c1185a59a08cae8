// Pointing: highlights a pass and selects a token, by pointer or by keys.

import { find } from "./dom.js";
import { showFigures } from "./figures/figures.js";
import { hideToken, showToken } from "./figures/token_panel.js";
import { count, duration } from "./figures/units.js";

const STEPS = { ArrowLeft: -1, ArrowRight: 1 };

export class Pointing {
  #views;
  #chosen = null; // a token
  #pass = null;

  /** `views()` returns the views of the shown answers. */
  constructor(views) {
    this.#views = views;
    find("work").addEventListener("pointerover", ({ target }) => this.point(...this.#found(target)));
    find("work").addEventListener("pointerleave", () => this.point(null, null));
    document.addEventListener("click", ({ target }) => this.#click(target));
    find("work").addEventListener("keydown", (event) => this.#step(event));
  }

  /** Highlights and describes a pass of a view. */
  point(view, pass) {
    for (const one of this.#views()) one.point(one === view ? pass : null);
    if (!pass) return;
    this.#pass = pass;
    find("pass-details").textContent = details(pass);
  }

  #found(element) {
    for (const view of this.#views()) {
      const pass = view.passAt(element);
      if (pass) return [view, pass];
    }
    return [null, null];
  }

  #click(element) {
    const view = this.#views().find((one) => one.text.tokenAt(element));
    if (view) this.#choose(view, view.text.tokenAt(element));
    else if (!element.closest("aside")) this.#choose(null, null);
  }

  #choose(view, token) {
    for (const one of this.#views()) one.text.choose(one === view ? token : null);
    this.#chosen = token;
    if (!token) return hideToken();
    showFigures(view);
    if (token.pass) this.point(view, token.pass);
    showToken(token);
  }

  #step(event) {
    if (!(event.key in STEPS) || event.altKey || event.ctrlKey || event.metaKey) return;
    const view = this.#views().find((one) => one.text.element === event.target);
    if (view) this.#choose(view, next(view.answer.tokens, this.#chosen, STEPS[event.key]));
    else if (event.target === find("strip")) this.#stepPass(STEPS[event.key]);
    else return;
    event.preventDefault();
  }

  #stepPass(step) {
    const view = this.#views().find((one) => find("strip").contains(one.strip.drawing));
    const pass = next(view?.answer.passes ?? [], this.#pass, step);
    if (!pass) return;
    this.point(view, pass);
    view.strip.reveal(pass);
  }
}

function next(all, current, step) {
  const at = all.indexOf(current);
  return all[at < 0 ? 0 : Math.min(Math.max(at + step, 0), all.length - 1)] ?? null;
}

function details({ index, tokens, report, rejected, isAfterAlternate }) {
  const parts = [
    `Pass ${index + 1}: ${count(tokens.length, "token")}`,
    report.predicted ? `${report.accepted} of ${count(report.predicted, "prediction")} accepted` : "nothing predicted",
    report.predicted && (isAfterAlternate ? "from the draft, after an alternate" : `from the ${report.source}`),
    rejected && `rejected: ${JSON.stringify(rejected)}`,
    `${times(report)}`,
  ];
  return parts.filter(Boolean).join("; ");
}

function times({ waiting, verifying, host }) {
  const named = [[waiting, "waited"], [verifying, "computed"], [host, "between passes"]].filter(([seconds]) => seconds !== null);
  const largest = Math.max(...named.map(([seconds]) => seconds));
  return named.map(([seconds, name]) => `${duration(seconds, largest)} ${name}`).join(", ");
}
