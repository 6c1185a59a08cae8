// Retries: which address to try next, when, and when to give up.
import grpc from '@grpc/grpc-js';

import { OutriderError, ServerLost } from './errors.js';

const FIRST_BACKOFF = 0.1; // seconds, as all times here
const SHORTEST = 0.01; // time that is worth a try: a server's clock may end a call as much before ours
const LONGEST_PAUSE = 300; // that a server can make a client wait
const MOST_BROKEN = 1; // connections that may break before anything has arrived, and the call is made again
const MOST_BROKEN_RESUMING = 3; // and that may break in a row before a further token arrives

/** The attempts at one call, over all addresses, under one deadline. */
export class Attempts {
  #policy;
  #numAddresses;
  #refused = new Set();
  #failures = 0;
  #numBroken = 0;
  #deadline;

  /** `policy` holds `maxRetries` and `maxBackoff`. */
  constructor(policy, numAddresses, first, timeout) {
    this.#policy = policy;
    this.#numAddresses = numAddresses;
    this.#deadline = timeout === undefined ? Infinity : now() + timeout;
    /** Index of the address to use now. */
    this.address = first;
  }

  /** Seconds until the deadline, Infinity without one; throws when there are hardly any left. */
  timeLeft() {
    const left = this.#deadline - now();
    if (left < SHORTEST) throw new OutriderError(grpc.status.DEADLINE_EXCEEDED, 'the time given to the call ran out');
    return left;
  }

  /** Counts retries anew. */
  progressed() {
    this.#failures = this.#numBroken = 0;
  }

  /**
   * Moves to the next address and returns the seconds to wait before using it; throws when it is time to stop.
   *
   * A server that is full is asked again when it says, if it does, after the others. One that does not say, or has
   * another fingerprint, is passed over only when there is something to resume. A call that one server after another
   * breaks down at is not carried on to all of them.
   */
  failed(error, resuming) {
    if (error.broke) this.#checkBroken(error, resuming);
    if (!isPassing(error, resuming)) throw error;
    if (error.code === grpc.status.CANCELLED) this.timeLeft(); // which a server's clock may have ended
    if (error.code === grpc.status.FAILED_PRECONDITION) this.#refused.add(this.address);
    const numOpen = this.#numAddresses - this.#refused.size;
    this.#failures += 1;
    if (numOpen === 0 || this.#failures > this.#policy.maxRetries * this.#numAddresses) throw error;
    this.#advance();
    return this.#pause(error, numOpen);
  }

  #checkBroken(error, resuming) {
    this.#numBroken += 1;
    if (resuming && this.#numBroken > MOST_BROKEN_RESUMING) throw error;
    if (resuming || this.#numBroken <= MOST_BROKEN) return;
    const message = `${error.message}: the connection broke before anything had arrived, which the call may have caused`;
    throw new ServerLost(error.code, message, { cause: error });
  }

  #advance() {
    do this.address = (this.address + 1) % this.#numAddresses;
    while (this.#refused.has(this.address));
  }

  #pause(error, numOpen) {
    if (this.#failures % numOpen !== 0) return 0;
    const rounds = this.#failures / numOpen;
    let pause = Math.min(this.#policy.maxBackoff, FIRST_BACKOFF * 2 ** (rounds - 1)) * (0.5 + Math.random() / 2);
    const isFull = error.code === grpc.status.RESOURCE_EXHAUSTED;
    if (isFull) pause = Math.max(pause, Math.min(error.retryAfter ?? 0, LONGEST_PAUSE));
    if (pause < this.timeLeft()) return pause;
    if (isFull) throw error;
    const message = 'the time given to the call ran out before a server could be reached';
    throw new OutriderError(grpc.status.DEADLINE_EXCEEDED, message, { cause: error });
  }
}

const now = () => performance.now() / 1000;

/** Whether another try may succeed. */
function isPassing(error, resuming) {
  switch (error.code) {
    case grpc.status.UNAVAILABLE:
    case grpc.status.CANCELLED:
      return true;
    case grpc.status.FAILED_PRECONDITION:
      return resuming;
    case grpc.status.RESOURCE_EXHAUSTED:
      return resuming || error.retryAfter !== undefined;
    default:
      return false;
  }
}
