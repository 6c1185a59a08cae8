// The verdict: whether two answers have the same bytes, and how much faster the draft made it.

import { find, make } from "./dom.js";
import { speed } from "./plots.js";

export function verdict(answer, alone) {
  const [bytes, others] = [answer, alone].map((one) => new TextEncoder().encode(one.text));
  const isSame = bytes.length === others.length && bytes.every((byte, index) => byte === others[index])
    && logprobs(answer) === logprobs(alone);
  const place = find("verdict");
  place.classList.toggle("differs", !isSame);
  const text = isSame ? "The same bytes." : "The bytes differ.";
  place.replaceChildren(make("strong", {}, text), ` ${isSame ? same(answer, bytes.length) : ""}${speeds(answer, alone)}`);
  place.hidden = false;
}

// Ids and log-probabilities: these are equal to the last bit if their shortest decimals are equal.
const logprobs = (answer) => answer.tokens.map(({ record }) => `${record.id} ${record.raw_logprob}`).join();

const same = (answer, bytes) =>
  `${answer.tokens.length} tokens, ${bytes} bytes and every log-probability compared: all are equal. `;

function speeds(answer, alone) {
  const [fast, slow] = [speed(answer), speed(alone)];
  if (!fast || !slow) return "";
  const expected = answer.end.speculation.expected_speedup;
  const estimate = expected ? ` The server expected ${expected.toFixed(2)} ×.` : "";
  const ratio = (fast / slow).toFixed(2);
  return `${slow.toFixed(1)} tokens a second alone, ${fast.toFixed(1)} with the draft: ${ratio} ×.${estimate}`;
}
