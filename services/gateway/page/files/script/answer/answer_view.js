// AnswerView: shows one answer: its tokens as they arrive, its passes, and at the end its text as Markdown if wanted.

import { copyButton } from "../copy.js";
import { make } from "../dom.js";
import { meanRate, recentRate } from "../figures/rates.js";
import { renderMarkdown } from "./markdown.js";
import { Strip } from "./strip.js";
import { TokenText } from "./token_text.js";

export class AnswerView {
  strip = new Strip();
  #marked = null; // the highlighted pass
  #rate = make("span", { class: "rate" });
  #header;
  #toggle = null;

  /** `title` names the answer; `alone` is the answer without predictions that it is compared with, if any. */
  constructor(answer, title, alone = null) {
    this.answer = answer;
    this.alone = alone;
    this.text = new TokenText(answer, `${title}: the text`);
    this.#header = make("header", {}, make("strong", {}, title), this.#rate);
    this.element = make("section", { class: "answer" }, this.#header, this.text.element);
  }

  /** Shows tokens that are new or have grown, and new passes. */
  grow(tokens) {
    this.text.grow(tokens);
    this.strip.grow(this.answer.passes);
  }

  /** Shows the speed, of the last second or once the answer is complete the mean, and the tokens per pass. */
  showRate() {
    const { end, tokens, passes } = this.answer;
    const rate = end ? meanRate(this.answer) : recentRate(this.answer);
    const parts = [rate && `${rate.toFixed(1)} tokens/s`, passes.length && `${(tokens.length / passes.length).toFixed(2)} tokens per pass`];
    this.#rate.textContent = parts.filter(Boolean).join(" · ");
  }

  /** Shows that no more tokens will come: the text can be copied. */
  end(isMarkdown) {
    this.text.end();
    if (this.answer.text !== "") this.#header.append(copyButton(() => this.answer.text));
    const nodes = isMarkdown && this.answer.text.trim() !== "" && renderMarkdown(this.answer.text);
    if (!nodes) return;
    this.prose = make("div", { class: "prose" }, ...nodes);
    this.#toggle = make("button", { type: "button", class: "plain" });
    this.#toggle.addEventListener("click", () => this.showTokens(this.text.element.hidden));
    this.#header.append(this.#toggle);
    this.element.append(this.prose);
    this.showTokens(false);
  }

  /** Shows the tokens, or instead of them the text as Markdown, where there is one. */
  showTokens(isShown) {
    if (!this.#toggle) return;
    this.text.element.hidden = !isShown;
    this.prose.hidden = isShown;
    this.#toggle.textContent = isShown ? "Show as text" : "Show the tokens";
  }

  passAt(element) {
    return this.text.tokenAt(element)?.pass ?? this.answer.passes[this.strip.indexAt(element)] ?? null;
  }

  /** Highlights a pass, or none with null. */
  point(pass) {
    for (const [one, isOn] of [[this.#marked, false], [pass, true]]) {
      if (!one) continue;
      this.text.mark(one, isOn);
      this.strip.mark(one, isOn);
    }
    this.#marked = pass;
  }
}
