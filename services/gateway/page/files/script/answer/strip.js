// Strip: draws one column for each pass: its tokens, and above them the rejected predictions.

import { draw } from "../dom.js";

const UNIT = 6; // of a mark and its gap, in pixels

export class Strip {
  drawing = draw("svg", { width: 0, height: 0 });
  #columns = [];

  /** Draws the passes that are new. */
  grow(passes) {
    if (this.#columns.length === passes.length) return;
    for (const pass of passes.slice(this.#columns.length)) this.#columns.push(this.drawing.appendChild(column(pass)));
    const rows = Math.max(5, ...passes.map((pass) => Math.max(pass.tokens.length, pass.report.predicted)));
    const [width, height] = [passes.length * (UNIT + 1), rows * UNIT + 2];
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 ${-height} ${width} ${height}` })) {
      this.drawing.setAttribute(name, value);
    }
    const frame = this.drawing.parentElement;
    if (frame) frame.scrollLeft = frame.scrollWidth;
  }

  /** Returns the index of the pass that an element belongs to; undefined if it is not in this strip. */
  indexAt(element) {
    const column = element.closest?.("g[data-pass]");
    return column && this.drawing.contains(column) ? Number(column.dataset.pass) : undefined;
  }

  mark(pass, isOn) {
    this.#columns[pass.index]?.classList.toggle("in-pass", isOn);
  }

  /** Scrolls to a pass, without moving the page. */
  reveal(pass) {
    const frame = this.drawing.parentElement;
    if (frame) frame.scrollLeft = (pass.index + 1) * (UNIT + 1) - frame.clientWidth / 2;
  }
}

// Accepted predictions are at the bottom; rejected ones are hollow.
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
