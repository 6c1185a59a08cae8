// The speed of an answer over time, beside that of the target alone if both were measured.

import { draw } from "../dom.js";
import { axis, FOOT, HEIGHT, label, number, show, WIDTH } from "./chart.js";
import { meanRate, recentRate, recentRates } from "./rates.js";

const [LEFT, TOP, BOTTOM] = [30, 8, HEIGHT - FOOT];
const SHARES = [0, 0.5, 1]; // of the height, where lines are

export function plotSpeed(answer, alone) {
  const rate = answer.end ? meanRate(answer) : recentRate(answer);
  const note = answer.end ? " in the mean" : " in the last second";
  number("speed", rate === undefined ? "–" : rate.toFixed(rate < 10 ? 1 : 0), rate === undefined ? "" : note);
  const lines = [answer, alone].filter(Boolean).map(recentRates);
  const time = Math.max(1, ...lines.flatMap((rates) => rates.map(([at]) => at)));
  const most = roundedUp(Math.max(1, ...lines.flatMap((rates) => rates.map(([, one]) => one))));
  const point = ([at, one]) => `${LEFT + (at / time) * (WIDTH - LEFT)},${height(one / most)}`;
  const drawn = lines.map((rates, index) =>
    draw("polyline", { class: index ? "line alone" : "line", points: rates.map(point).join(" ") }));
  const labels = rate === undefined ? [] : [...scale(most), ...times(time)];
  show("speed-plot", "Tokens per second over time", [...SHARES.map((share) => axis(height(share), LEFT)), ...labels, ...drawn]);
}

const height = (share) => BOTTOM - share * (BOTTOM - TOP);

function scale(most) {
  return SHARES.map((share) => label(LEFT - 5, height(share) + 3, `${share * most}`, "end"));
}

function times(milliseconds) {
  return [label(LEFT, HEIGHT - 2, "0", "start"), label(WIDTH, HEIGHT - 2, `${(milliseconds / 1000).toFixed(1)} s`, "end")];
}

// To a number whose half is short too.
function roundedUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 3, 4, 5, 6, 8, 10].find((factor) => factor * power >= value);
}
