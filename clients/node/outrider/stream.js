// Stream: the chunks of one generation as they arrive.
import { setTimeout as sleep } from 'node:timers/promises';

import grpc from '@grpc/grpc-js';

import { OutriderError, asError } from './errors.js';

/**
 * The chunks of one generation; made by `Client.stream`.
 *
 * Iterate over it once. The call begins with the first chunk asked for; it is cancelled when the loop is left early, by
 * `cancel`, or by the signal. A connection that breaks is taken up again unnoticed.
 */
export class Stream {
  #pool;
  #generation;
  #attempts;
  #cancelled = new AbortController();
  #isBegun = false;

  constructor(pool, generation, attempts, signal) {
    this.#pool = pool;
    this.#generation = generation;
    this.#attempts = attempts;
    if (signal?.aborted) this.cancel();
    signal?.addEventListener('abort', () => this.cancel(), { once: true, signal: this.#cancelled.signal });
  }

  /** All that has arrived so far. */
  get received() {
    return this.#generation.received();
  }

  /** The whole generation; throws before it has ended. */
  get result() {
    const { finished, resumed } = this.#generation;
    if (!finished) throw new Error('the generation has not ended');
    return { ...this.received, finished, resumed };
  }

  /** Ends the call; a caller that waits for the next chunk gets CANCELLED. */
  cancel() {
    this.#cancelled.abort();
  }

  async *[Symbol.asyncIterator]() {
    if (this.#isBegun) throw new Error('a stream can be iterated over once');
    this.#isBegun = true;
    this.#pool.streams.add(this);
    try {
      while (!this.#generation.finished) yield* this.#call();
    } catch (error) {
      if (error instanceof OutriderError) error.received = this.received;
      throw error;
    } finally {
      this.#pool.streams.delete(this);
      this.cancel();
    }
  }

  async *#call() {
    this.#checkWanted();
    const server = this.#pool.servers[this.#attempts.address];
    const deadline = Date.now() + this.#attempts.timeLeft() * 1000;
    const call = server.service.StreamGenerate(this.#generation.nextRequest(), server.metadata, { deadline });
    const cancel = () => call.cancel();
    this.#cancelled.signal.addEventListener('abort', cancel);
    call.on('error', () => {}); // one that comes when nobody reads any more
    let pause = 0;
    try {
      yield* this.#chunks(call);
    } catch (failure) {
      pause = this.#pauseAfter(asError(failure));
    } finally {
      this.#cancelled.signal.removeEventListener('abort', cancel);
      call.cancel();
    }
    await sleep(pause * 1000, undefined, { signal: this.#cancelled.signal }).catch(() => this.#checkWanted());
  }

  async *#chunks(call) {
    for await (const response of call) {
      const chunk = this.#generation.receive(response);
      if (!chunk) continue;
      if (chunk.token_ids.length > 0) this.#attempts.progressed();
      yield chunk;
    }
    if (!this.#generation.finished) {
      throw new OutriderError(grpc.status.UNAVAILABLE, 'the server ended the stream early');
    }
  }

  /** Seconds to wait before the next call; throws the error if there is to be none. */
  #pauseAfter(error) {
    if (this.#generation.finished) return 0; // all of it had arrived before the connection broke
    this.#checkWanted();
    const pause = this.#attempts.failed(error, this.#generation.started !== undefined);
    this.#pool.preferred = this.#attempts.address;
    return pause;
  }

  #checkWanted() {
    if (!this.#cancelled.signal.aborted && !this.#pool.isClosed) return;
    throw new OutriderError(grpc.status.CANCELLED, 'the stream was cancelled');
  }
}
