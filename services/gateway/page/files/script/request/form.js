// Form: the fields of the page as the body of a request; shows which field is wrong.

import { Problem } from "./api.js";
import { find } from "../dom.js";

const LISTS = ["stop", "banned_strings"];
const SEED_BITS = 53; // of JavaScript's exact integers
const MOST_SEED = 2 ** SEED_BITS - 1;
const REPORTED = { token_records: true, pass_reports: true, logprobs: true, top_candidates: 5, rank: true, entropy: true };

export class Form {
  #form = find("ask");

  get mode() {
    return this.#form.elements.mode.value;
  }

  get prompt() {
    return this.#form.elements.prompt.value;
  }

  set prompt(text) {
    this.#form.elements.prompt.value = text;
  }

  /** Returns the body without the prompt. Without a seed a random one is chosen here and shown. Throws Problem. */
  parameters() {
    const fields = this.#form.elements;
    this.#check();
    if (Number(fields.seed.value) > MOST_SEED) {
      throw new Problem(`seed is ${fields.seed.value}; this page holds seeds up to ${MOST_SEED}; larger ones are for the API`, 0, "seed");
    }
    const body = { ...REPORTED, stream: true, seed: drawSeed() };
    for (const { name, value } of this.#form.querySelectorAll("[type=number]")) if (value !== "") body[name] = Number(value);
    for (const name of LISTS) if (fields[name].value !== "") body[name] = lines(fields[name].value);
    if (fields.ignore_eos.checked) body.ignore_eos = true;
    body.speculation = fields.speculation.value;
    if (body.speculation !== "never" && !fields.lookup.checked) body.lookup = false;
    if (body.speculation !== "always") delete body.num_predictions;
    const [kind, text] = [fields.grammar.value, fields.grammar_text.value];
    if (kind) body[kind] = kind === "choice" ? lines(text) : text;
    return body;
  }

  /** Returns the filled fields by their names, with this seed, for a link. */
  filled(seed) {
    const fields = new URLSearchParams(new FormData(this.#form));
    fields.set("seed", seed);
    for (const [name, value] of [...fields]) if (value === "") fields.delete(name);
    return fields;
  }

  /** Fills the fields as `filled` returned them; lists that are not named have their default. */
  fill(fields) {
    this.#form.reset();
    for (const element of this.#form.elements) {
      if (element.type === "checkbox") element.checked = fields.has(element.name);
      else if (element.type === "radio") element.checked ||= fields.get(element.name) === element.value && !element.disabled;
      else if (element.name && (fields.has(element.name) || element.tagName !== "SELECT")) {
        element.value = fields.get(element.name) ?? "";
      }
    }
  }

  // The browser's own check cannot show a field in a closed section.
  #check() {
    if (this.prompt === "") throw new Problem("the prompt is empty: type one, or choose an example", 0, "prompt");
    const bad = this.#form.querySelector(":is(input, select, textarea):invalid");
    if (bad) throw new Problem(`${bad.name}: ${bad.validationMessage}`, 0, bad.name);
  }

  /** Shows an error, at its field if it has one. */
  fault(message, field) {
    this.clear();
    const path = (field ?? "").split(/[.[]/, 1)[0];
    const name = { messages: "prompt", json_schema: "grammar_text", regex: "grammar_text", lark: "grammar_text",
      choice: "grammar_text" }[path] ?? path;
    const element = name && this.#form.elements[name];
    if (element instanceof HTMLElement) {
      find("parameters").open ||= find("parameters").contains(element);
      element.setAttribute("aria-invalid", "true");
      element.setAttribute("aria-describedby", "fault");
    }
    const place = find("fault");
    place.textContent = message;
    place.hidden = false;
  }

  clear() {
    find("fault").hidden = true;
    for (const element of this.#form.querySelectorAll("[aria-invalid]")) {
      element.removeAttribute("aria-invalid");
      element.removeAttribute("aria-describedby");
    }
  }
}

function lines(text) {
  return text.split("\n").filter((line) => line !== "").map((line) => line.replaceAll("\\n", "\n"));
}

function drawSeed() {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return (high % 2 ** (SEED_BITS - 32)) * 2 ** 32 + low;
}
