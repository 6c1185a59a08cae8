// Where a token may go.

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** Whether nobody on the way can read what is sent there: by https, or to this machine. Throws for what is no URL. */
export function isGuarded(address) {
  const { protocol, hostname } = new URL(address);
  return protocol === 'https:' || (protocol === 'http:' && LOOPBACK.test(hostname));
}

/** Whether a link may name it: this machine, or the page's own, whose host is given. Others are typed. */
export function mayBeLinked(address, host) {
  if (!URL.canParse(address)) return false;
  const { protocol, hostname } = new URL(address);
  return /^https?:$/.test(protocol) && (LOOPBACK.test(hostname) || hostname === host);
}
