// Makes elements from text nodes and attributes only: the text of a model is never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const find = (id) => document.getElementById(id);

/** Makes an element with these attributes and children; a string becomes a text node. */
export function make(name, attributes = {}, ...children) {
  return furnish(document.createElement(name), attributes, children);
}

/** Makes an SVG element likewise. */
export function draw(name, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, name), attributes, children);
}

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Returns a function that calls `work` at most once per frame, however often it is called. */
export function oncePerFrame(work) {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      work();
    });
  };
}
