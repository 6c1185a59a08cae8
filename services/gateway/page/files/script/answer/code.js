// Code: a block of code, coloured by the kinds of its words; highlight.js only parses, so that no text becomes HTML.

import highlighter from "../../vendor/highlight/highlight.min.js";
import { copyButton } from "../copy.js";
import { make } from "../dom.js";

const MOST = 20_000; // characters that are parsed; longer code stays plain

/** Returns the element of a block of code. The first word of `language` names its language; without a known one it is plain. */
export function codeBlock(text, language = "") {
  const code = make("code", {}, ...coloured(text, language.split(/\s/, 1)[0]));
  return make("div", { class: "code" }, copyButton(() => text), make("pre", {}, code));
}

function coloured(text, language) {
  if (!highlighter.getLanguage(language) || text.length > MOST) return [text];
  const { _emitter: tree, errorRaised } = highlighter.highlight(text, { language, ignoreIllegals: true });
  return errorRaised ? [text] : tree.rootNode.children.map(toNode);
}

function toNode(node) {
  if (typeof node === "string") return node;
  return make("span", node.scope ? { class: `code-${node.scope.split(/[.:]/, 1)[0]}` } : {}, ...node.children.map(toNode));
}
