// Aligner: which part of the text each token has brought.

/** Bytes of the base64 that URLs and files have. */
export function bytesOf(base64) {
  const text = atob(base64.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/**
 * Shares out the text, which may come behind its tokens, as whole characters: one belongs to the token that completes
 * it. What a token has and the text has not (an end, the rest of a stop string) belongs to none.
 */
export class Aligner {
  #waiting = []; // tokens, oldest first, each with what of its bytes has not come yet
  #encoder = new TextEncoder();
  #last = null;

  /** Calls `give(token, text)` for all that can be told; `entries` are [token, bytes]. */
  take(entries, text, give) {
    for (const [token, bytes] of entries) this.#waiting.push({ token, rest: bytes, begun: 0 });
    for (const character of text) this.#place(this.#encoder.encode(character), character, give);
  }

  #place(bytes, character, give) {
    let done = 0;
    while (this.#waiting.length) {
      const first = this.#waiting[0];
      const same = common(first.rest, bytes.subarray(done));
      first.rest = first.rest.subarray(same);
      done += same;
      this.#last = first.token;
      if (done === bytes.length) return give(this.#last, character);
      this.#waiting.shift(); // it is all there, or what is left of it is not in the text
    }
    return give(this.#last, character);
  }
}

function common(one, other) {
  const most = Math.min(one.length, other.length);
  let same = 0;
  while (same < most && one[same] === other[same]) same += 1;
  return same;
}
