// The result of an answer in one line: how much faster predictions made it, or why there were none.

import { meanRate } from "../figures/rates.js";
import { count } from "../figures/units.js";

const NEARLY_SAME = 0.05; // a difference of speeds that is not worth a claim
const FEW = 0.1; // a share of passes with predictions from which no speed follows

/** Returns {title, details, isFault}; `alone` is the same request's answer without predictions, null if there is none. */
export function judge(answer, alone) {
  if (alone && !isSame(answer, alone)) return { title: "The bytes differ.", details: "", isFault: true };
  const { speculation } = answer.end;
  const ratio = alone ? meanRate(answer) / meanRate(alone) : speculation.speedup;
  const title = [reason(speculation) ?? speed(ratio), alone && "the same bytes"].filter(Boolean).join(", ");
  const details = alone ? compared(answer, alone) : estimated(speculation);
  return { title: title && `${title}.`, details, isFault: false };
}

function reason({ no_speculation_reason: name, no_speculation_detail: detail, num_spec_steps: predicted, passes }) {
  if (name) return name === "slower" ? `A draft does not pay here: ${detail}` : `Nothing was predicted: ${detail}`;
  return predicted < passes * FEW ? `Only ${predicted} of ${count(passes, "pass", "passes")} had predictions` : null;
}

function speed(ratio) {
  if (!(ratio > 0)) return ""; // not measured
  if (Math.abs(ratio - 1) < NEARLY_SAME) return "A draft makes no difference here";
  return ratio > 1 ? `${ratio.toFixed(1)} × faster` : `A draft does not pay here: ${ratio.toFixed(2)} × the speed`;
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
    + `${slow} tokens/s alone, ${fast} with the draft.`;
}

function estimated({ speedup, predicted }) {
  return speedup && predicted ? "This is the server’s estimate; “Side by side” measures it, and compares every byte." : "";
}
