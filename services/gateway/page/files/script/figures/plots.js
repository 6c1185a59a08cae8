// The four figures beside an answer, redrawn from all of its data.

import { draw, find, make } from "../dom.js";
import { axis, FOOT, HEIGHT, label, number, show, TOP, WIDTH } from "./chart.js";
import { plotSpeed } from "./speed_plot.js";
import { count, duration, percent } from "./units.js";

/** Draws the figures of an answer, and for comparison the speed of `alone`, the target's alone, if it is not null. */
export function plot(answer, alone) {
  plotSpeed(answer, alone);
  plotPerPass(answer.passes);
  plotPositions(answer.passes);
  plotWaiting(answer.passes);
}

function plotPerPass(passes) {
  const tokens = passes.map((pass) => pass.tokens.length);
  const mean = tokens.length ? tokens.reduce((sum, size) => sum + size, 0) / tokens.length : 0;
  number("per-pass", tokens.length ? mean.toFixed(2) : "–", tokens.length ? ` in ${count(tokens.length, "pass", "passes")}` : "");
  const counts = [];
  for (const size of tokens) counts[size] = (counts[size] ?? 0) + 1;
  const most = Math.max(1, ...counts.filter(Boolean));
  const bars = Array.from({ length: Math.max(5, counts.length - 1) }, (_, index) => ({
    share: (counts[index + 1] ?? 0) / most, text: `${index + 1}`, top: `${counts[index + 1] ?? 0}`,
  }));
  show("per-pass-plot", "Passes by their number of tokens", columns(bars, false));
}

function plotPositions(passes) {
  const positions = [];
  for (const { report } of passes) {
    for (let index = 0; index < report.predicted; index += 1) {
      const entry = (positions[index] ??= { offered: 0, accepted: 0 });
      entry.offered += 1;
      entry.accepted += index < report.accepted;
    }
  }
  const [offered, accepted] = ["offered", "accepted"].map((name) => positions.reduce((sum, one) => sum + one[name], 0));
  number("acceptance", offered ? `${percent(accepted / offered)}` : "–", offered ? ` of ${count(offered, "prediction")}` : "");
  const bars = positions.map((entry, index) => {
    const share = entry.accepted / entry.offered;
    return { share, text: `${index + 1}`, top: `${Math.round(share * 100)}` };
  });
  show("position-plot", "Share of predictions accepted at each position of a pass", columns(bars, true));
}

function plotWaiting(passes) {
  const [computing, waiting, host] = ["verifying", "waiting", "host"].map((name) =>
    passes.reduce((sum, pass) => sum + (pass.report[name] ?? 0), 0));
  const total = computing + waiting + host;
  const parts = [["computing", "the target computes", computing], ["waiting", "it waits for the draft", waiting],
    ["host", "its own work between passes", host]];
  let x = 0;
  const bars = total === 0 ? [] : parts.map(([name, , seconds]) => {
    const width = (seconds / total) * WIDTH;
    x += width;
    return draw("rect", { class: `bar ${name}`, x: x - width, y: 0, width: Math.max(0, width - 1), height: 14, rx: 2 });
  });
  const entries = parts.map(([name, text, seconds]) => make("li", { class: name }, make("span", {}, text),
    make("span", {}, total ? `${percent(seconds / total)} · ${duration(seconds, Math.max(computing, waiting, host))}` : "–")));
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} 14`, role: "img", "aria-label": "Shares of the time" }, ...bars);
  find("waiting-plot").replaceChildren(picture, make("ul", { class: "shares" }, ...entries));
}

function columns(bars, hasGround) {
  const [y, step] = [HEIGHT - FOOT, WIDTH / Math.max(bars.length, 5)];
  const width = Math.min(34, step - 6);
  return [axis(y), ...bars.flatMap(({ share, text, top }, index) => {
    const [x, height] = [index * step + (step - width) / 2, share * (y - TOP)];
    const ground = hasGround ? [draw("rect", { class: "bar ground", x, y: TOP, width, height: y - TOP, rx: 2 })] : [];
    const bar = draw("rect", { class: "bar", x, y: y - height, width, height, rx: 2 });
    const middle = x + width / 2;
    return [...ground, bar, label(middle, hasGround ? 10 : y - height - 4, top), label(middle, HEIGHT - 2, text)];
  })];
}
