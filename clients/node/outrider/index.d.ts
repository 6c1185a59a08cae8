/** Outrider's client: generated text as it is written, unbroken by servers that come and go. */
import type { ChannelCredentials, status } from '@grpc/grpc-js';

// Made of the protos by `npm run types`.
import type { Chunk__Output as Chunk } from './types/outrider/v1/Chunk.js';
import type { FieldViolation__Output as FieldViolation } from './types/outrider/v1/FieldViolation.js';
import type { Finished__Output as Finished } from './types/outrider/v1/Finished.js';
import type { Started__Output as Started } from './types/outrider/v1/Started.js';
import type { StreamGenerateRequest } from './types/outrider/v1/StreamGenerateRequest.js';
import type { TokenRecord__Output as TokenRecord } from './types/outrider/v1/TokenRecord.js';

export type { Chunk, FieldViolation, Finished, Started, StreamGenerateRequest, TokenRecord };

export interface ClientOptions {
  /** TLS; without it, calls go in the clear. */
  credentials?: ChannelCredentials;
  /** Shows who calls: over TLS, or to this machine only. */
  token?: string;
  /** How many times in a row every address is tried again without a token arriving; 0 turns resuming off. Default: 10. */
  maxRetries?: number;
  /** Seconds that the pauses between such rounds grow to. Default: 5. */
  maxBackoff?: number;
}

export interface StreamOptions {
  /** Seconds for all attempts together. */
  timeout?: number;
  /** Cancels the stream. */
  signal?: AbortSignal;
}

/** What has arrived of a generation that may not be whole. */
export interface Received {
  started?: Started;
  text: string;
  /** Those of the request's own `continue_from` included. */
  tokenIds: number[];
  /** One per id that has arrived, if asked for. */
  records: TokenRecord[];
  /** Those of the prompt, if asked for. */
  promptRecords: TokenRecord[];
}

/** A whole generation. */
export interface Result extends Received {
  started: Started;
  finished: Finished;
  /** How many times it was interrupted and taken up again. */
  resumed: number;
}

/** A connection to one or several servers that hold the same model. */
export class Client {
  /** Connects to addresses such as "localhost:50051", the first one first. */
  constructor(addresses: string | readonly string[], options?: ClientOptions);
  /** Continues a prompt, chunk by chunk; the time runs from here. */
  stream(request: StreamGenerateRequest, options?: StreamOptions): Stream;
  /** Continues a prompt and returns the whole. */
  generate(request: StreamGenerateRequest, options?: StreamOptions): Promise<Result>;
  /** Closes the connections; streams still open fail with CANCELLED. */
  close(): void;
}

/** The chunks of one generation; iterate over it once. Iterating throws OutriderError. */
export class Stream implements AsyncIterable<Chunk> {
  private constructor();
  /** All that has arrived so far. */
  readonly received: Received;
  /** The whole generation; throws before it has ended. */
  readonly result: Result;
  /** Ends the call; a caller that waits for the next chunk gets CANCELLED. */
  cancel(): void;
  [Symbol.asyncIterator](): AsyncIterator<Chunk>;
}

/** A call failed. */
export class OutriderError extends Error {
  readonly code: status;
  /** Of INVALID_ARGUMENT: everything that is wrong with the request. */
  readonly violations: readonly FieldViolation[];
  /** Of RESOURCE_EXHAUSTED: seconds after which the server wants to be asked again, if it does. */
  readonly retryAfter?: number;
  /** Of UNAVAILABLE: whether the connection went while the server was at work on the call. */
  readonly broke: boolean;
  /** What had arrived before. */
  readonly received?: Received;
}

/** The connection broke before anything had arrived, at a second server too: the call may be why. */
export class ServerLost extends OutriderError {}
