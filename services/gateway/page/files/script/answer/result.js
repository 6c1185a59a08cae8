// The result of an answer in one line: who predicted how much of it, and how much faster that made it.

import { meanRate } from "../figures/rates.js";
import { count } from "../figures/units.js";

const NEARLY_SAME = 0.05; // a difference of speeds that is not worth a claim
const FEW_PASSES = 0.1; // a share of passes with predictions from which no speed follows
const FEW_TOKENS = 50; // an answer from which no speed follows
const ESTIMATED = "This is the server’s estimate; “Side by side” measures it, and compares every byte.";
const SOURCES = { draft: "the draft", alternate: "the draft", attached: "the head", lookup: "the lookup" };
const IN_FULL = { "the lookup": "the lookup in the text" };

/** Returns {title, details, isFault}; `alone` is the same request's answer without predictions, null if there is none. */
export function judge(answer, alone) {
  if (alone && !isSame(answer, alone)) return { title: "The bytes differ.", details: "", isFault: true };
  const ratio = alone ? meanRate(answer) / meanRate(alone) : answer.end.speculation.speedup;
  const doubt = ratio > 0 ? doubtOf(answer) : ""; // without a ratio, nothing was measured
  const speed = ratio > 0 && !doubt && speedOf(ratio, sourcesOf(answer));
  const title = [speed || shareOf(answer), alone && "the same bytes"].filter(Boolean).join(", ");
  const details = [alone && compared(answer, alone), speed && `${shareOf(answer)}.`, doubt, speed && !alone && ESTIMATED];
  return { title: `${title}.`, details: details.filter(Boolean).join(" "), isFault: false };
}

/** Returns why an answer with predictions tells no speed, "" if it tells one. */
function doubtOf(answer) {
  const { num_spec_steps: predicted, passes } = answer.end.speculation;
  if (!predicted) return "";
  if (answer.tokens.length < FEW_TOKENS) return `An answer of fewer than ${FEW_TOKENS} tokens is too short to tell a speed.`;
  return predicted < passes * FEW_PASSES ? `Only ${predicted} of ${passes} passes had predictions, too few to tell a speed.` : "";
}

// Those that predicted, whether or not they were right.
function sourcesOf({ passes }) {
  const named = passes.filter(({ report }) => report.predicted).map(({ report }) => SOURCES[report.source]);
  return [...new Set(named)].sort();
}

function speedOf(ratio, sources) {
  if (sources.length === 0) return "";
  const who = sources.join(" and ");
  const [subject, isOne] = [who[0].toUpperCase() + who.slice(1), sources.length === 1];
  if (Math.abs(ratio - 1) < NEARLY_SAME) return `${subject} ${isOne ? "makes" : "make"} no difference here`;
  if (ratio > 1) return `${ratio.toFixed(1)} × faster with ${who}`;
  return `${subject} ${isOne ? "does" : "do"} not pay here: ${ratio.toFixed(2)} × the speed`;
}

function shareOf({ tokens, end }) {
  const { no_speculation_reason: reason, no_speculation_detail: detail } = end.speculation;
  if (reason) return `Nothing was predicted: ${detail}`;
  const counts = {};
  for (const { kind } of tokens) if (kind in SOURCES) counts[SOURCES[kind]] = (counts[SOURCES[kind]] ?? 0) + 1;
  const predicted = Object.values(counts).reduce((sum, one) => sum + one, 0);
  const parts = Object.keys(counts).sort().map((who) => [counts[who], `by ${IN_FULL[who] ?? who}`]);
  const by = parts.length === 1 ? ` ${parts[0][1]}` : parts.length ? `: ${parts.map((part) => part.join(" ")).join(", ")}` : "";
  return `${predicted || "None"} of ${count(tokens.length, "token")} ${predicted > 1 ? "were" : "was"} predicted${by}`;
}

function isSame(answer, alone) {
  return answer.text === alone.text && logprobs(answer) === logprobs(alone);
}

// Ids and log-probabilities: these are equal to the last bit if their shortest decimals are equal.
const logprobs = (answer) => answer.tokens.map(({ record }) => `${record.id} ${record.raw_logprob}`).join();

function compared(answer, alone) {
  const bytes = new TextEncoder().encode(answer.text).length;
  const [fast, slow] = [answer, alone].map((one) => meanRate(one)?.toFixed(1) ?? "–");
  return `${count(answer.tokens.length, "token")}, ${count(bytes, "byte")} and every log-probability compared: all are equal. `
    + `${slow} tokens/s alone, ${fast} with predictions.`;
}
