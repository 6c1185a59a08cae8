// Answer: everything received of one answer: its tokens, the source of each, and its passes.

import { Aligner, bytesOf } from "./aligner.js";

/** The sources of tokens, in the order of the legend; "own" is the target's. */
export const KINDS = ["draft", "alternate", "attached", "lookup", "own"];

export class Answer {
  tokens = []; // {index, record, kind, pass, text}
  passes = []; // {index, report, tokens, rejected, isAfterAlternate}; `rejected` is a text
  text = "";
  started = null;
  end = null;
  moments = []; // [milliseconds since the request, tokens by then]
  #aligner = new Aligner();
  #alternates = 0;
  #asked = performance.now();

  /** Takes an event; returns the tokens that are new or whose text has grown. */
  take(event) {
    if (event.name === "started") this.started = event.data;
    if (event.name === "finished") this.end = event.data;
    return event.name === "chunk" ? this.#grow(event.data) : [];
  }

  #grow(chunk) {
    const fresh = chunk.tokens.map((record, index) => this.#token(record, this.tokens.length + index));
    this.tokens.push(...fresh);
    this.#share(fresh, chunk.pass_reports);
    this.text += chunk.text;
    const changed = new Set(fresh);
    this.#aligner.take(fresh.map((token) => [token, bytesOf(token.record.bytes)]), chunk.text, (token, text) => {
      token.text += text;
      changed.add(token);
    });
    if (fresh.length) this.moments.push([performance.now() - this.#asked, this.tokens.length]);
    return [...changed];
  }

  #token(record, index) {
    return { index, record, kind: "own", pass: null, text: "" };
  }

  // From the last report back: after a resumption, some tokens of the first pass may have been received before.
  #share(tokens, reports) {
    const passes = reports.map((report) => this.#pass(report));
    let end = tokens.length;
    for (const pass of passes.toReversed()) {
      const begin = pass === passes[0] ? 0 : Math.max(0, end - pass.report.tokens);
      pass.tokens = tokens.slice(begin, end);
      end = begin;
    }
    for (const pass of passes) {
      pass.index = this.passes.push(pass) - 1;
      for (const token of pass.tokens) [token.pass, token.kind] = [pass, kindOf(token.record, pass)];
    }
  }

  #pass(report) {
    const isAfterAlternate = report.source === "draft" && report.alternates > this.#alternates;
    this.#alternates = report.alternates;
    return { index: 0, report, tokens: [], rejected: textOf(report.rejected), isAfterAlternate };
  }
}

// Decoded together, since a character may take several tokens.
function textOf(predictions) {
  return new TextDecoder().decode(Uint8Array.from(predictions.flatMap(({ bytes }) => [...bytesOf(bytes)])));
}

function kindOf(record, pass) {
  if (!record.predicted) return "own";
  return record.prediction_source === "draft" && pass.isAfterAlternate ? "alternate" : record.prediction_source;
}
