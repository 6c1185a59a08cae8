// Markdown: renders an answer as elements made one by one; marked only parses, so that no text becomes HTML.

import { lexer } from "../../vendor/marked/marked.esm.js";
import { make } from "../dom.js";
import { codeBlock } from "./code.js";

const SAFE_LINK = /^(?:https?:|mailto:)/i;
const PLAIN = { paragraph: "p", blockquote: "blockquote", strong: "strong", em: "em", del: "del" };

const MAKERS = {
  heading: (token) => make(`h${Math.min(token.depth + 2, 6)}`, {}, ...inner(token)), // below the headings of the page
  code: (token) => codeBlock(token.text, token.lang),
  codespan: (token) => make("code", {}, token.text),
  list: (token) => make(token.ordered ? "ol" : "ul", token.ordered ? { start: token.start } : {}, ...token.items.map(toNode)),
  list_item: (token) => make("li", {}, ...inner(token)),
  checkbox: (token) => (token.checked ? "☑ " : "☐ "),
  table,
  link: (token) => link(token.href, ...inner(token)),
  image: (token) => link(token.href, token.text || token.href), // an image would be loaded from another server
  br: () => make("br"),
  hr: () => make("hr"),
  space: () => "",
  def: () => "", // the address of a link elsewhere
};

/** Returns the nodes of a text in Markdown, null if it cannot be parsed, as when it is nested too deeply; HTML in it is shown as text. */
export function renderMarkdown(text) {
  try {
    return lexer(text).map(toNode);
  } catch {
    return null;
  }
}

function toNode(token) {
  if (token.type in PLAIN) return make(PLAIN[token.type], {}, ...inner(token));
  if (token.type in MAKERS) return MAKERS[token.type](token);
  return token.tokens ? make("span", {}, ...inner(token)) : token.text ?? token.raw;
}

const inner = (token) => token.tokens.map(toNode);

function table({ header, rows }) {
  const row = (name, cells) => make("tr", {}, ...cells.map((cell) => make(name, {}, ...inner(cell))));
  const body = make("tbody", {}, ...rows.map((cells) => row("td", cells)));
  return make("div", { class: "wide" }, make("table", {}, make("thead", {}, row("th", header)), body));
}

function link(address, ...content) {
  if (!SAFE_LINK.test(address)) return make("span", {}, ...content);
  return make("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, ...content);
}
