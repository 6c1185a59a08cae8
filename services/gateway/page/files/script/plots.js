// The four figures beside an answer, redrawn from all of its data.

import { draw, find, make } from "./dom.js";

const [WIDTH, HEIGHT, FOOT] = [280, 84, 14];

/** Draws the figures of an answer, and for comparison the speed of `alone`, the target's alone, if it is not null. */
export function plot(answer, alone) {
  plotSpeed(answer, alone);
  plotPerPass(answer.passes);
  plotPositions(answer.passes);
  plotWaiting(answer.passes);
}

/** Returns tokens per second: by the server's timings at the end, before by the arrivals; undefined without tokens. */
export function speed(answer) {
  const seconds = answer.end?.timings?.decode;
  if (seconds > 0 && !answer.end.resumed) return (answer.end.usage.completion_tokens - 1) / seconds;
  const [first, last] = [answer.moments[0], answer.moments.at(-1)];
  return last && last[0] > first[0] ? ((last[1] - first[1]) / (last[0] - first[0])) * 1000 : undefined;
}

function plotSpeed(answer, alone) {
  const now = speed(answer);
  number("speed", now === undefined ? "–" : now.toFixed(now < 10 ? 1 : 0), answer.end ? "" : " so far");
  const lines = [answer, alone].filter((one) => one?.moments.length);
  const time = Math.max(1, ...lines.map((one) => one.moments.at(-1)[0] - one.moments[0][0]));
  const most = Math.max(1, ...lines.map((one) => one.moments.at(-1)[1]));
  const y = HEIGHT - FOOT;
  const path = (one) => {
    const from = one.moments[0][0];
    const points = one.moments.map(([at, count]) => `${((at - from) / time) * WIDTH},${y - (count / most) * (y - 6)}`);
    return draw("polyline", { class: one === alone ? "line alone" : "line", points: points.join(" ") });
  };
  const ends = [[0, "start", "0"], [WIDTH, "end", `${(time / 1000).toFixed(1)} s`]];
  show("speed-plot", `${most} tokens in ${(time / 1000).toFixed(1)} s`, [
    axis(y), ...lines.map(path), ...ends.map(([x, anchor, text]) => label(x, HEIGHT - 2, text, anchor)),
  ]);
}

function plotPerPass(passes) {
  const tokens = passes.map((pass) => pass.tokens.length);
  const mean = tokens.length ? tokens.reduce((sum, count) => sum + count, 0) / tokens.length : 0;
  number("per-pass", tokens.length ? mean.toFixed(2) : "–", tokens.length ? ` in ${tokens.length} passes` : "");
  const counts = [];
  for (const count of tokens) counts[count] = (counts[count] ?? 0) + 1;
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
  number("acceptance", offered ? `${percent(accepted / offered)}` : "–", offered ? ` of ${offered} predictions` : "");
  const bars = positions.map((entry, index) => {
    const share = entry.accepted / entry.offered;
    return { share, text: `${index + 1}`, top: percent(share) };
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
    make("span", {}, total ? `${percent(seconds / total)} · ${milliseconds(seconds)}` : "–")));
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} 14`, role: "img", "aria-label": "Shares of the time" }, ...bars);
  find("waiting-plot").replaceChildren(picture, make("ul", { class: "shares" }, ...entries));
}

function columns(bars, hasGround) {
  const [y, step] = [HEIGHT - FOOT, WIDTH / Math.max(bars.length, 5)];
  const width = Math.min(34, step - 6);
  return [axis(y), ...bars.flatMap(({ share, text, top }, index) => {
    const [x, height] = [index * step + (step - width) / 2, share * (y - 14)];
    const ground = hasGround ? [draw("rect", { class: "bar ground", x, y: 14, width, height: y - 14, rx: 2 })] : [];
    const bar = draw("rect", { class: "bar", x, y: y - height, width, height, rx: 2 });
    const middle = x + width / 2;
    return [...ground, bar, label(middle, hasGround ? 10 : y - height - 4, top), label(middle, HEIGHT - 2, text)];
  })];
}

function show(id, description, parts) {
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": description }, ...parts);
  find(id).replaceChildren(picture);
}

const number = (id, text, note) => find(id).replaceChildren(text, make("small", {}, note));
const axis = (y) => draw("line", { class: "axis", x1: 0, x2: WIDTH, y1: y, y2: y });
const label = (x, y, text, anchor = "middle") => draw("text", { x, y, "text-anchor": anchor }, text);

export const percent = (share) => `${Math.round(share * 100)} %`;
export const milliseconds = (seconds) =>
  seconds < 10 ? `${(seconds * 1000).toFixed(seconds < 0.01 ? 2 : 0)} ms` : `${seconds.toFixed(1)} s`;
