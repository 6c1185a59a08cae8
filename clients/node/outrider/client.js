// Client: talks to one or several servers that hold the same model.
import grpc from '@grpc/grpc-js';

import { Attempts } from './attempts.js';
import { Generation } from './generation.js';
import { GenerationService } from './protos.js';
import { Stream } from './stream.js';

const CHANNEL = {
  'grpc.max_receive_message_length': -1,
  // A dead peer is noticed within 80 seconds of silence, even in the middle of a stream.
  'grpc.keepalive_time_ms': 60_000,
  'grpc.keepalive_timeout_ms': 20_000,
  // A server that comes back is reached within a second.
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1_000,
};
// No proxy reads what is sent in the clear: gRPC would send even localhost through the one that http_proxy names.
const CLEAR = { ...CHANNEL, 'grpc.enable_http_proxy': 0 };
const LOCAL = /^(unix:|localhost:|127\.\d+\.\d+\.\d+:|\[::1\]:)/;

export class Client {
  #pool;
  #policy;

  /** See index.d.ts. Throws a TypeError for what cannot be. */
  constructor(addresses, { credentials, token, maxRetries = 10, maxBackoff = 5 } = {}) {
    const all = [addresses].flat();
    if (all.length === 0) throw new TypeError('a client needs at least one address, such as "localhost:50051"');
    for (const [name, value] of Object.entries({ maxRetries, maxBackoff })) {
      if (!(value >= 0)) throw new TypeError(`${name} must be at least 0, not ${value}`);
    }
    const metadata = tokenMetadata(token, credentials ? [] : all);
    const security = credentials ?? grpc.credentials.createInsecure();
    const channel = credentials ? CHANNEL : CLEAR;
    const servers = all.map((address) => ({ service: new GenerationService(address, security, channel), metadata }));
    this.#policy = { maxRetries, maxBackoff };
    this.#pool = { servers, preferred: 0, isClosed: false, streams: new Set() };
  }

  /** See index.d.ts. */
  stream(request, { timeout, signal } = {}) {
    const { servers, preferred } = this.#pool;
    const attempts = new Attempts(this.#policy, servers.length, preferred, timeout);
    return new Stream(this.#pool, new Generation(request), attempts, signal);
  }

  /** See index.d.ts. */
  async generate(request, options) {
    const stream = this.stream(request, options);
    for await (const _ of stream);
    return stream.result;
  }

  /** See index.d.ts. */
  close() {
    this.#pool.isClosed = true;
    for (const stream of this.#pool.streams) stream.cancel(); // gRPC would let their calls go on
    for (const { service } of this.#pool.servers) service.close();
  }
}

/** What shows a token, if there is one: over TLS, or to this machine only. */
function tokenMetadata(token, clearAddresses) {
  const shown = new grpc.Metadata();
  if (token === undefined) return shown;
  if (!/^[!-~]+$/.test(token)) throw new TypeError('a token must be one word of visible ASCII characters');
  if (!clearAddresses.every((address) => LOCAL.test(address))) {
    throw new TypeError('a token is sent over TLS only, or to this machine');
  }
  shown.set('authorization', `Bearer ${token}`);
  return shown;
}
