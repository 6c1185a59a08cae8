// Examples: prompts to begin with; a model without a chat template continues a text, and the demo pair writes Python.

import { find, make } from "../dom.js";

const EXAMPLES = {
  text: [
    "def binary_search(items, target):",
    "class Stack:\n    \"\"\"Last in, first out.\"\"\"\n",
    "squares = {1: 1, 2: 4, 3: 9, 4: 16, 5:",
  ],
  chat: [
    "Write a Python function that merges two sorted lists.",
    "Compare TCP and UDP in a table.",
    "Explain in three sentences why the sky is blue.",
  ],
};

/** Shows the examples for a kind of prompt; `choose(prompt)` is called for the one that is clicked. */
export function showExamples(mode, choose) {
  const buttons = EXAMPLES[mode].map((prompt) => {
    const button = make("button", { type: "button" }, prompt.split("\n", 1)[0]);
    button.addEventListener("click", () => choose(prompt));
    return button;
  });
  find("examples").replaceChildren(...buttons);
}
