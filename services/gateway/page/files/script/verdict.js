// The verdict: whether two answers are the same to the byte, and what the draft was worth.

import { find, make } from "./dom.js";
import { speed } from "./plots.js";

export function verdict(answer, alone) {
  const [bytes, others] = [answer, alone].map((one) => new TextEncoder().encode(one.text));
  const isSame = bytes.length === others.length && bytes.every((byte, index) => byte === others[index])
    && logprobs(answer) === logprobs(alone);
  const place = find("verdict");
  place.classList.toggle("differs", !isSame);
  const said = isSame ? "The same bytes." : "The bytes differ.";
  place.replaceChildren(make("strong", {}, said), ` ${isSame ? same(answer, bytes.length) : ""}${speeds(answer, alone)}`);
  place.hidden = false;
}

// Ids, and the numbers beside them: equal to the last bit where their shortest decimals are.
const logprobs = (answer) => answer.tokens.map(({ record }) => `${record.id} ${record.raw_logprob}`).join();

const same = (answer, bytes) =>
  `${answer.tokens.length} tokens, ${bytes} bytes and every log-probability compared: all are equal. `;

function speeds(answer, alone) {
  const [fast, slow] = [speed(answer), speed(alone)];
  if (!fast || !slow) return "";
  return `${slow.toFixed(1)} tokens a second alone, ${fast.toFixed(1)} with the draft: ${(fast / slow).toFixed(2)} ×.`;
}
