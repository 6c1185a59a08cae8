// TokenText: the text of an answer as spans, one for each token, whose class is the token's source.

import { make } from "../dom.js";

export class TokenText {
  #answer;
  #spans = [];
  #ghost = make("span", { class: "ghost", "aria-hidden": "true" }); // predictions that are not part of the text

  /** `label` names the text for readers of the screen. */
  constructor(answer, label) {
    this.#answer = answer;
    this.element = make("div", { class: "text live", tabindex: "0", role: "group", "aria-label": label });
  }

  /** Shows tokens that are new or have grown, and beside them the rejected predictions of the last pass. */
  grow(tokens) {
    const { scrollHeight, scrollTop, clientHeight } = this.element;
    for (const token of tokens) {
      const span = (this.#spans[token.index] ??= this.element.appendChild(spanOf(token)));
      span.firstChild.data = token.text;
    }
    this.#showGhost(this.#answer.passes.at(-1), true);
    if (scrollHeight - scrollTop - clientHeight < 40) this.element.scrollTop = this.element.scrollHeight;
  }

  /** Shows the finished text; tokens without text, such as the one that ended it, are marked. */
  end() {
    this.element.classList.remove("live");
    for (const token of this.#answer.tokens) {
      this.#spans[token.index].classList.remove("guess", "ahead");
      this.#spans[token.index].classList.toggle("silent", token.text === "");
    }
    this.#ghost.remove();
  }

  /** Shows the text as it was in a pass: its predictions as ghost text before the verdict, accepted or struck out after it. */
  show(pass, isJudged) {
    for (const token of this.#answer.tokens) {
      const isOfPass = token.pass === pass;
      const isGuess = isOfPass && !isJudged && token.kind !== "own";
      const isAhead = token.pass?.index > pass.index || (isOfPass && !isJudged && !isGuess);
      this.#spans[token.index].classList.toggle("guess", isGuess);
      this.#spans[token.index].classList.toggle("ahead", isAhead);
    }
    this.#showGhost(pass, isJudged);
    const last = this.#spans[pass.tokens.at(-1)?.index];
    if (last) this.element.scrollTop = last.offsetTop - this.element.clientHeight / 2;
  }

  tokenAt(element) {
    const span = element.closest?.(".token");
    return span && this.element.contains(span) ? this.#answer.tokens[Number(span.dataset.index)] : null;
  }

  mark(pass, isOn) {
    for (const token of pass.tokens) this.#spans[token.index]?.classList.toggle("in-pass", isOn);
  }

  choose(token) {
    this.element.querySelector(".chosen")?.classList.remove("chosen");
    const span = token && this.#spans[token.index];
    span?.classList.add("chosen");
    span?.scrollIntoView({ block: "nearest" });
  }

  // Rejected predictions stand before the token that the target sampled in the place of the first one.
  #showGhost(pass, isStruck) {
    this.#ghost.remove();
    if (!pass?.rejected) return;
    this.#ghost.textContent = pass.rejected;
    this.#ghost.classList.toggle("struck", isStruck);
    const last = pass.tokens.at(-1);
    if (last?.kind === "own") this.#spans[last.index].before(this.#ghost);
    else this.element.append(this.#ghost);
  }
}

function spanOf(token) {
  return make("span", { class: `token ${token.kind}`, "data-index": token.index, "data-pass": token.pass?.index ?? "" }, "");
}
