// Rates: the speed of an answer in tokens per second.

const WINDOW = 1000; // milliseconds that a recent rate is measured over
const LEAST = 100; // milliseconds; over less, the rate depends on how the network cuts the stream

/** Returns the mean: by the server's timings, or by the arrivals if there are none; undefined if it is unknown. */
export function meanRate(answer) {
  const seconds = answer.end?.timings?.decode;
  if (seconds > 0 && !answer.end.resumed) return (answer.end.usage.completion_tokens - 1) / seconds;
  const [first, last] = [answer.moments[0], answer.moments.at(-1)];
  return last && last[0] > first[0] ? ((last[1] - first[1]) / (last[0] - first[0])) * 1000 : undefined;
}

/** Returns the rate of the last second; undefined if less than a tenth of a second has passed. */
export function recentRate(answer) {
  return recentRates(answer).at(-1)?.[1];
}

/** Returns [milliseconds since the first token, rate of the second before] for each moment of an answer. */
export function recentRates({ moments }) {
  const rates = [];
  let from = 0;
  for (const [now, tokens] of moments) {
    while (moments[from + 1]?.[0] <= now - WINDOW) from += 1;
    const [then, before] = moments[from];
    if (now - then >= LEAST) rates.push([now - moments[0][0], ((tokens - before) / (now - then)) * 1000]);
  }
  return rates;
}
