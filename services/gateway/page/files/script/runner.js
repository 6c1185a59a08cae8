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
  run(body, turn, isCompared) {
    return this.#alone(async () => {
      const alone = isCompared ? await this.#one(aloneOf(body), turn, "The target alone") : null;
      await this.#one(body, turn, isCompared ? "With predictions" : "The answer", alone);
    });
  }

  /** Runs the request of a turn's answer again with a larger limit, and shows the answer in its place once it is longer. */
  lengthen(body, turn) {
    return this.#alone(async () => {
      const known = turn.views.at(-1).answer.tokens.length;
      const view = new AnswerView(new Answer(), "The answer");
      await this.#show(body, view, () => view.answer.tokens.length > known && turn.replace(view));
    });
  }

  async #alone(work) {
    this.#control = new AbortController();
    try {
      await work();
    } finally {
      this.#control = null;
    }
  }

  async #one(body, turn, title, alone = null) {
    const view = new AnswerView(new Answer(), title, alone);
    turn.add(view);
    showFigures(view); // which clears those of the answer before
    await this.#show(body, view, () => {});
    return view.answer;
  }

  // `grown` is called after each event.
  async #show(body, view, grown) {
    const draw = oncePerFrame(() => showFigures(view));
    try {
      await this.#receive(body, view, () => {
        grown();
        draw();
      });
    } finally {
      view.end("messages" in body);
      draw();
    }
    this.#say(summary(view.answer));
  }

  async #receive(body, view, grown) {
    const onResume = () => this.#say("the connection broke; resuming after the last event");
    for await (const event of generate(this.api, body, { signal: this.#control.signal, onResume })) {
      view.grow(view.answer.take(event));
      if (event.name === "started") this.#say(`seed ${event.data.seed}`);
      grown();
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
