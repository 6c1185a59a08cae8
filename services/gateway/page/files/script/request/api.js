// Api: calls the gateway that the page was loaded from, with the caller's key.

/** An error that the gateway returned; `field` names the bad field of the request, if there is one. */
export class Problem extends Error {
  constructor(message, status, field) {
    super(message);
    this.status = status;
    this.field = field;
  }
}

/** The gateway did not answer at all. */
export class Unreachable extends Error {
  constructor() {
    super("The gateway cannot be reached. Is it still running?");
  }
}

export class Api {
  /** `key()` returns the key, "" for none. */
  constructor(key) {
    this.key = key;
  }

  async get(path) {
    return (await this.send(path, { headers: this.headers() })).json();
  }

  async ask(path, body) {
    return (await this.post(path, JSON.stringify(body))).json();
  }

  /** Returns the response to a body; throws Problem if it is refused, Unreachable, or AbortError. */
  post(path, body, { headers = {}, signal } = {}) {
    const all = { "content-type": "application/json", ...headers };
    return this.send(path, { method: "POST", body, signal, headers: this.headers(all) });
  }

  headers(others = {}) {
    const key = this.key();
    return key ? { ...others, authorization: `Bearer ${key}` } : others;
  }

  async send(path, options) {
    const response = await fetch(path, { ...options, credentials: "omit", redirect: "error" }).catch((error) => {
      throw error instanceof TypeError ? new Unreachable() : error;
    });
    if (response.ok) return response;
    const body = await response.json().catch(() => null);
    const error = body?.error ?? { message: `the gateway answered ${response.status}` };
    throw new Problem(error.message, response.status, error.param);
  }
}
