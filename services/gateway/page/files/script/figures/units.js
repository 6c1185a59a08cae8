// Units: numbers as text.

export const percent = (share) => `${Math.round(share * 100)} %`;

/** Returns "1 pass" or "2 passes"; the plural may be given. */
export const count = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;

/** Returns a time in seconds as text; times beside each other have the unit that suits `largest`. */
export function duration(seconds, largest = seconds) {
  if (largest >= 1) return `${seconds.toFixed(2)} s`;
  return `${(seconds * 1000).toFixed(largest < 0.1 ? 2 : 0)} ms`;
}
