// Figures: shows the figures and the passes of one answer; the page has one place for them.

import { Answer } from "../answer/answer.js";
import { find } from "../dom.js";
import { plot } from "./plots.js";

/** Shows the figures of a view, unless its turn was removed meanwhile. */
export function showFigures(view) {
  if (!view.element.isConnected) return;
  view.showRate();
  plot(view.answer, view.alone);
  if (view.strip.drawing.parentElement !== find("strip")) find("strip").replaceChildren(view.strip.drawing);
}

export function clearFigures() {
  plot(new Answer(), null);
  find("strip").replaceChildren();
}
