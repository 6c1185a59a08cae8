// AnswerView: shows an answer as it arrives; each token is a span whose class is the token's source.

import { draw, make } from "./dom.js";

const UNIT = 6; // of a mark and its gap, in pixels

export class AnswerView {
  #spans = [];
  #columns = [];
  #shown = null; // the highlighted pass

  /** `title` names the answer; `strip` is the element for its passes, null for none. */
  constructor(answer, title, strip) {
    this.answer = answer;
    this.rate = make("span", { class: "rate" });
    this.text = make("div", { class: "text", tabindex: "0", role: "group", "aria-label": `${title}: the answer` });
    this.element = make("section", { class: "answer" }, make("header", {}, make("strong", {}, title), this.rate), this.text);
    this.drawing = draw("svg");
    this.strip = strip;
    strip?.replaceChildren(this.drawing);
  }

  /** Shows tokens that are new or have grown, and new passes. */
  grow(tokens) {
    const isAtEnd = this.text.scrollHeight - this.text.scrollTop - this.text.clientHeight < 40;
    for (const token of tokens) {
      const span = (this.#spans[token.index] ??= this.text.appendChild(this.#span(token)));
      span.firstChild.data = token.text;
    }
    if (isAtEnd) this.text.scrollTop = this.text.scrollHeight;
    if (this.strip) this.#growStrip();
  }

  /** Marks tokens without text, such as the token that ended the answer. */
  end() {
    for (const token of this.answer.tokens) this.#spans[token.index].classList.toggle("silent", token.text === "");
  }

  tokenAt(element) {
    const span = element.closest?.(".token");
    return span && this.text.contains(span) ? this.answer.tokens[Number(span.dataset.index)] : null;
  }

  passAt(element) {
    const column = element.closest?.("g[data-pass]");
    return column && this.drawing.contains(column) ? this.answer.passes[Number(column.dataset.pass)] : null;
  }

  /** Highlights a pass, or none with null. */
  point(pass) {
    for (const [old, isOn] of [[this.#shown, false], [pass, true]]) {
      if (!old) continue;
      for (const token of old.tokens) this.#spans[token.index]?.classList.toggle("in-pass", isOn);
      this.#columns[old.index]?.classList.toggle("in-pass", isOn);
    }
    this.#shown = pass;
  }

  choose(token) {
    this.text.querySelector(".chosen")?.classList.remove("chosen");
    const span = token && this.#spans[token.index];
    span?.classList.add("chosen");
    span?.scrollIntoView({ block: "nearest" });
  }

  reveal(pass) {
    this.#columns[pass.index]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  #span(token) {
    return make("span", { class: `token ${token.kind}`, "data-index": token.index, "data-pass": token.pass?.index ?? "" }, "");
  }

  #growStrip() {
    const { passes } = this.answer;
    if (this.#columns.length === passes.length) return;
    for (const pass of passes.slice(this.#columns.length)) this.#columns.push(this.drawing.appendChild(column(pass)));
    const rows = Math.max(5, ...passes.map((pass) => Math.max(pass.tokens.length, pass.report.predicted)));
    const [width, height] = [passes.length * (UNIT + 1), rows * UNIT + 2];
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 ${-height} ${width} ${height}` })) {
      this.drawing.setAttribute(name, value);
    }
    this.strip.scrollLeft = this.strip.scrollWidth;
  }
}

// One pass as a column: its tokens from below, accepted predictions first, and above them hollow rejected predictions.
function column(pass) {
  const { predicted, accepted } = pass.report;
  const hit = draw("rect", { class: "hit", x: pass.index * (UNIT + 1), y: -500, width: UNIT + 1, height: 500 });
  const marks = pass.tokens.map((token, row) => mark(pass.index, row, `mark ${token.kind}`));
  for (let row = pass.tokens.length; row < predicted + (predicted > accepted ? 0 : 1); row += 1) {
    marks.push(mark(pass.index, row, "mark missed"));
  }
  return draw("g", { "data-pass": pass.index }, hit, ...marks);
}

function mark(column, row, kind) {
  const inset = kind.endsWith("missed") ? 0.5 : 0;
  const [x, y] = [column * (UNIT + 1) + 1 + inset, -(row + 1) * UNIT + inset];
  return draw("rect", { class: kind, x, y, width: UNIT - 1 - 2 * inset, height: UNIT - 1 - 2 * inset, rx: 1 });
}

