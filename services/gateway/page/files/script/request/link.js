// Link: a request in the part of an address after "#", which browsers do not send to any server.

/** Returns the link that fills the form as these fields say. */
export const linkTo = (fields) => `#${fields}`;

/** Calls `fill` with the fields of the page's own address, if it has any. */
export function readLink(fill) {
  if (location.hash.length > 1) fill(new URLSearchParams(location.hash.slice(1)));
}
