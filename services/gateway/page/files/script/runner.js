// Runner: requests answers, one after another, and shows each as it arrives.

import { Answer } from "./answer/answer.js";
import { AnswerView } from "./answer/answer_view.js";
import { find, oncePerFrame } from "./dom.js";
import { showFigures } from "./figures/figures.js";
import { count } from "./figures/units.js";
import { generate } from "./request/generate.js";

export class Runner {
  #control = null;

  constructor(api) {
    this.api = api;
  }

  get isBusy() {
    return this.#control !== null;
  }

  stop() {
    this.#control?.abort();
  }

  /** Runs a request and shows its answer in a turn, with `isCompared` first the target's alone. Throws as `generate` does. */
  async run(body, turn, isCompared) {
    this.#control = new AbortController();
    try {
      const alone = isCompared ? await this.#one(aloneOf(body), turn, "The target alone") : null;
      await this.#one(body, turn, isCompared ? "With predictions" : "The answer", alone);
    } finally {
      this.#control = null;
    }
  }

  async #one(body, turn, title, alone = null) {
    const answer = new Answer();
    const view = new AnswerView(answer, title, alone);
    turn.add(view);
    showFigures(view); // which clears those of the answer before
    const draw = oncePerFrame(() => showFigures(view));
    try {
      await this.#receive(body, view, draw);
    } finally {
      view.end("messages" in body);
      draw();
    }
    this.#say(summary(answer));
    return answer;
  }

  async #receive(body, view, draw) {
    const onResume = () => this.#say("the connection broke; resuming after the last event");
    for await (const event of generate(this.api, body, { signal: this.#control.signal, onResume })) {
      view.grow(view.answer.take(event));
      if (event.name === "started") this.#say(`seed ${event.data.seed}`);
      draw();
    }
  }

  #say(text) {
    find("status").textContent = text;
  }
}

function aloneOf(body) {
  const { num_predictions: _, lookup: __, ...others } = body;
  return { ...others, speculation: "never" };
}

function summary({ started, end }) {
  const resumed = end.resumed ? `, resumed ${end.resumed} ×` : "";
  return `${count(end.usage.completion_tokens, "token")}, ${end.finish_reason.replaceAll("_", " ")}, seed ${started.seed}${resumed}`;
}
