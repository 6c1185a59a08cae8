// Link: a request in the part of an address after "#", which browsers do not send to any server.

/** Returns the link that fills the form as these fields say. */
export const linkTo = (fields) => `#${fields}`;

/** Returns the link with another value of a field. */
export function changedLink(link, name, value) {
  const fields = new URLSearchParams(link.slice(1));
  fields.set(name, value);
  return linkTo(fields);
}

/** Calls `fill` with the fields of the page's own address, if it has any. */
export function readLink(fill) {
  if (location.hash.length > 1) fill(new URLSearchParams(location.hash.slice(1)));
}
