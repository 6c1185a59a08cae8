// Api: calls of the gateway that the page came from, with the caller's key.

/** What the gateway says of a call that failed; `field` names what is wrong with the request, if that is it. */
export class Problem extends Error {
  constructor(message, status, field) {
    super(message);
    this.status = status;
    this.field = field;
  }
}

export class Api {
  /** `key()` gives the key, empty where there is none. */
  constructor(key) {
    this.key = key;
  }

  async get(path) {
    return (await this.send(path, { headers: this.headers() })).json();
  }

  async ask(path, body) {
    return (await this.post(path, JSON.stringify(body))).json();
  }

  /** The response to a body; throws Problem where it is refused, TypeError where nobody can be reached. */
  post(path, body, { headers = {}, signal } = {}) {
    const told = { "content-type": "application/json", ...headers };
    return this.send(path, { method: "POST", body, signal, headers: this.headers(told) });
  }

  headers(others = {}) {
    const key = this.key();
    return key ? { ...others, authorization: `Bearer ${key}` } : others;
  }

  async send(path, options) {
    const response = await fetch(path, { ...options, credentials: "omit", redirect: "error" });
    if (response.ok) return response;
    const body = await response.json().catch(() => null);
    const told = body?.error ?? { message: `the gateway answered ${response.status}` };
    throw new Problem(told.message, response.status, told.param);
  }
}
