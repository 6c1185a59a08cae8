// Runner: requests answers, one after another, and shows each as it arrives.

import { Answer } from "./answer.js";
import { AnswerView } from "./answer_view.js";
import { find, oncePerFrame } from "./dom.js";
import { generate } from "./generate.js";
import { plot, speed } from "./plots.js";
import { verdict } from "./verdict.js";

export class Runner {
  views = [];
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

  /** Runs a request, with `isCompared` first by the target alone, and returns the answer. Throws as `generate` does. */
  async run(body, isCompared) {
    this.#control = new AbortController();
    find("answers").replaceChildren();
    find("verdict").hidden = true;
    this.views = [];
    try {
      const alone = isCompared ? await this.#one(aloneOf(body), "The target alone, NEVER") : null;
      const answer = await this.#one(body, isCompared ? "With the draft" : "The answer", alone);
      if (isCompared) verdict(answer, alone);
      return answer;
    } finally {
      this.#control = null;
    }
  }

  async #one(body, title, alone = null) {
    const answer = new Answer();
    const view = new AnswerView(answer, title, find("strip"));
    this.views.push(view);
    find("answers").append(view.element);
    const draw = oncePerFrame(() => this.#draw(view, alone));
    const onResume = () => this.#say("the connection broke; resuming after the last event");
    for await (const event of generate(this.api, body, { signal: this.#control.signal, onResume })) {
      const tokens = answer.take(event);
      if (event.name === "started") this.#say(`seed ${answer.started.seed}`);
      view.grow(tokens);
      draw();
    }
    view.end();
    draw();
    this.#say(summary(answer));
    return answer;
  }

  #draw(view, alone) {
    const now = speed(view.answer);
    view.rate.textContent = now === undefined ? "" : `${now.toFixed(1)} tokens/s`;
    plot(view.answer, alone);
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
  return `${end.usage.completion_tokens} tokens, ${end.finish_reason.replaceAll("_", " ")}, seed ${started.seed}${resumed}`;
}
