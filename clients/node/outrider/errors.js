// What a failed call says, read from its gRPC status.
import grpc from '@grpc/grpc-js';

import { decode } from './protos.js';

// How gRPC reports a stream that a dying server or a proxy has reset, beside UNAVAILABLE.
const BROKEN_CODES = [grpc.status.INTERNAL, grpc.status.UNKNOWN];
const BROKEN = /RST_STREAM|GOAWAY|Stream removed|Write failed|Write error/;
// And how it reports, as UNAVAILABLE, that a connection went with a call on it. One that never was is another matter.
const LOST = /RST_STREAM|GOAWAY|Stream removed|Connection dropped|ECONNRESET|ETIMEDOUT|EPIPE|Write failed|Write error/;
const UNREACHED = 'No connection established';

/** A call failed. */
export class OutriderError extends Error {
  name = 'OutriderError';
  /** Of INVALID_ARGUMENT: everything that is wrong with the request, each with `field` and `description`. */
  violations = [];
  /** Of RESOURCE_EXHAUSTED: seconds after which the server wants to be asked again, if it does. */
  retryAfter = undefined;
  /** Of UNAVAILABLE: whether the connection went while the server was at work on the call. */
  broke = false;
  /** What had arrived before, as `Stream.received`. */
  received = undefined;

  constructor(code, message, options) {
    super(message, options);
    /** A `grpc.status`. */
    this.code = code;
  }
}

/** The connection broke before anything had arrived, at a second server too: the call may be why. */
export class ServerLost extends OutriderError {
  name = 'ServerLost';
}

/** The error that stands for a failure of gRPC; others are handed through. */
export function asError(failure) {
  if (failure instanceof OutriderError || !(failure.metadata instanceof grpc.Metadata)) return failure;
  const { details, metadata } = failure;
  const isReset = BROKEN_CODES.includes(failure.code) && BROKEN.test(details);
  const error = new OutriderError(isReset ? grpc.status.UNAVAILABLE : failure.code, details, { cause: failure });
  if (error.code === grpc.status.UNAVAILABLE) error.broke = LOST.test(details) && !details.startsWith(UNREACHED);
  if (error.code === grpc.status.INVALID_ARGUMENT) error.violations = violations(metadata);
  if (error.code === grpc.status.RESOURCE_EXHAUSTED) error.retryAfter = retryAfter(metadata);
  return error;
}

function violations(metadata) {
  return readDetails(metadata, 'google.rpc.BadRequest', 'BadRequestDetail').flatMap((found) => found.field_violations);
}

function retryAfter(metadata) {
  const [pushback] = metadata.get('grpc-retry-pushback-ms');
  if (pushback !== undefined) return /^\d+$/.test(pushback) ? Number(pushback) / 1000 : undefined;
  const delay = readDetails(metadata, 'google.rpc.RetryInfo', 'RetryDetail')[0]?.retry_delay;
  return delay ? Math.max(Number(delay.seconds) + delay.nanos / 1e9, 0) : undefined;
}

/** The details of one kind, none if they cannot be read: the status alone still says what is wrong. */
function readDetails(metadata, kind, message) {
  try {
    return metadata
      .get('grpc-status-details-bin')
      .flatMap((bytes) => decode('ErrorStatus', bytes).details)
      .filter((detail) => detail.type_url.endsWith(`/${kind}`))
      .map((detail) => decode(message, detail.value));
  } catch {
    return [];
  }
}
