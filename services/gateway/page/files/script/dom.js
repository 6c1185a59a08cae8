// Elements made of text nodes and attributes alone: whatever a model writes is shown as it is, and never read as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const find = (id) => document.getElementById(id);

/** An element with these attributes and children; a text becomes a text node. */
export function make(name, attributes = {}, ...children) {
  return furnish(document.createElement(name), attributes, children);
}

/** The same of SVG. */
export function draw(name, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, name), attributes, children);
}

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A function that does its work once per frame, however often it is called; it counts on nothing but the latest. */
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
