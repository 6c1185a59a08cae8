// TokenPanel: what is told of one token, and of what might have been drawn in its place.

import { find, make } from "./dom.js";
import { percent } from "./plots.js";

const SOURCES = {
  draft: "the draft predicted it",
  alternate: "predicted behind an alternate",
  lookup: "read off the text before",
  own: "the target’s own",
};

export function showToken(token) {
  const { record, pass } = token;
  const told = [
    ["id", `${record.id}`],
    ["source", SOURCES[token.kind]],
    ["pass", pass ? `${pass.index + 1}` : "–"],
    ["rank", record.rank === null ? "–" : `${record.rank}`],
    ["entropy", record.entropy === null ? "–" : `${record.entropy.toFixed(3)} nats`],
    ["log-probability", record.raw_logprob === null ? "–" : record.raw_logprob.toFixed(4)],
  ];
  const list = make("dl", {}, ...told.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  find("token-told").replaceChildren(make("p", { class: "spelled" }, spelled(record)), list, ...candidates(record));
}

function candidates(record) {
  if (!record.candidates.length) return [];
  const isAmong = record.candidates.some((one) => one.id === record.id);
  const all = isAmong ? record.candidates : [...record.candidates, record];
  const rows = all.map((one) => make("tr", one.id === record.id ? { class: "drawn" } : {},
    make("td", {}, spelled(one)), make("td", {}, share(one.raw_logprob)), make("td", {}, share(one.processed_logprob))));
  const heads = ["candidate", "the model’s", "drawn from"].map((name) => make("th", { scope: "col" }, name));
  return [make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows))];
}

// White space and control characters are written out, as nobody would see them.
function spelled(one) {
  return JSON.stringify(one.text).slice(1, -1).replaceAll('\\"', '"').replaceAll(" ", "␣");
}

const share = (logprob) => (logprob === null ? "–" : logprob < Math.log(0.01) ? `${(Math.exp(logprob) * 100).toPrecision(2)} %`
  : percent(Math.exp(logprob)));
