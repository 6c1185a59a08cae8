// Turn: one request as shown: the message that asked, one answer or two side by side, and their result.

import { make } from "../dom.js";
import { judge } from "./result.js";

const CUT = "max_tokens"; // the finish reason of an answer that a larger limit continues

export class Turn {
  views = [];
  isKept = false; // whether the conversation continues from it
  #answers = make("div", { class: "answers" });
  #result = make("p", { class: "result", role: "status" });
  #actions = make("p", { class: "row quiet" });
  #more = null; // the button that continues the answer

  /** `asked` is the message to show, null for none; `address` is the link that repeats the request, null for none. */
  constructor(asked, address) {
    this.address = address;
    const message = asked === null ? [] : [make("p", { class: "asked" }, asked)];
    this.element = make("section", { class: "turn" }, ...message, this.#answers, this.#result, this.#actions);
  }

  /** The text of the last answer, as far as it has arrived. */
  get text() {
    return this.views.at(-1)?.answer.text ?? "";
  }

  /** Whether no token has arrived. */
  get isEmpty() {
    return this.views.every((view) => view.answer.tokens.length === 0);
  }

  add(view) {
    this.views.push(view);
    this.#answers.append(view.element);
  }

  /** Shows one answer in the place of all others, and nothing of how they ended. */
  replace(view) {
    if (this.views.includes(view)) return;
    this.views = [view];
    this.#answers.replaceChildren(view.element);
    this.#result.replaceChildren();
    this.#actions.replaceChildren();
  }

  /** Keeps the turn as it is: its answer can no longer be continued. */
  close() {
    this.#more?.remove();
  }

  /** Shows what came of a complete answer. `replay` is called when a replay is wanted, `lengthen` when more of a cut one is. */
  end(replay, lengthen) {
    const view = this.views.at(-1);
    const { title, details, isFault } = judge(view.answer, view.alone);
    this.#result.classList.toggle("differs", isFault);
    this.#result.replaceChildren(make("strong", {}, title), ` ${details}`);
    this.#more = view.answer.end.finish_reason === CUT ? button("Continue", lengthen) : null;
    const again = view.answer.passes.length ? button("Replay in slow motion", () => replay(view)) : null;
    const link = this.address && make("a", { href: this.address }, `Link to this request, with seed ${view.answer.started.seed}`);
    this.#actions.replaceChildren(...[this.#more, again, link].filter(Boolean));
  }
}

function button(name, click) {
  const element = make("button", { type: "button", class: "plain" }, name);
  element.addEventListener("click", click);
  return element;
}
