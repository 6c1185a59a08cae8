// Aligner: assigns each part of the text to the token that it came from.

/** Decodes base64, in the alphabet of URLs too. */
export function bytesOf(base64) {
  const text = atob(base64.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/**
 * The text may arrive later than its tokens. It is assigned as whole characters: each belongs to the token that
 * completes it. Bytes of a token that the text lacks (an end token, the rest of a stop string) are skipped.
 */
export class Aligner {
  #waiting = []; // tokens, oldest first, each with its bytes that are not in the text yet
  #encoder = new TextEncoder();
  #last = null;

  /** Calls `give(token, text)` for each character of the text; `entries` are [token, bytes]. */
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
      this.#waiting.shift(); // it is complete, or its remaining bytes are not in the text
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
