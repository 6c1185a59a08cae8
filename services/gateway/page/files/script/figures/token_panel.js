// TokenPanel: shows the details of one token, and the other candidates at its position.

import { find, make } from "../dom.js";
import { percent } from "./units.js";

const SOURCES = {
  draft: "predicted by the draft",
  alternate: "predicted after an alternate",
  attached: "predicted by the model’s head",
  lookup: "predicted from a repetition",
  own: "not predicted",
};

/** Shows a token; on a narrow screen the panel is above the page until `hideToken` is called. */
export function showToken(token) {
  find("token").classList.add("open");
  const { record, pass } = token;
  const details = [
    ["id", `${record.id}`],
    ["source", SOURCES[token.kind]],
    ["pass", pass ? `${pass.index + 1}` : "–"],
    ["rank", record.rank === null ? "–" : `${record.rank}`],
    ["entropy", record.entropy === null ? "–" : `${record.entropy.toFixed(3)} nats`],
    ["log-probability", record.raw_logprob === null ? "–" : record.raw_logprob.toFixed(4)],
  ];
  const list = make("dl", {}, ...details.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  find("token-details").replaceChildren(make("p", { class: "spelled" }, spelled(record)), list, ...candidates(record));
}

export function hideToken() {
  find("token").classList.remove("open");
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

// Makes white space and control characters visible.
function spelled(one) {
  return JSON.stringify(one.text).slice(1, -1).replaceAll('\\"', '"').replaceAll(" ", "␣");
}

const share = (logprob) => (logprob === null ? "–" : logprob < Math.log(0.01) ? `${(Math.exp(logprob) * 100).toPrecision(2)} %`
  : percent(Math.exp(logprob)));
