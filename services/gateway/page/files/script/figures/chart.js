// Chart: the frame of a plot, and what plots are made of.

import { draw, find, make } from "../dom.js";

export const [WIDTH, HEIGHT, FOOT, TOP] = [280, 84, 14, 14];

/** Shows a plot with a description for readers of the screen. */
export function show(id, description, parts) {
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": description }, ...parts);
  find(id).replaceChildren(picture);
}

/** Shows the number above a plot. */
export const number = (id, text, note) => find(id).replaceChildren(text, make("small", {}, note));

export const axis = (y, x1 = 0) => draw("line", { class: "axis", x1, x2: WIDTH, y1: y, y2: y });

export const label = (x, y, text, anchor = "middle") => draw("text", { x, y, "text-anchor": anchor }, text);
