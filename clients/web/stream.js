// Streams generations to a page, by gRPC-Web or Connect. It needs no bundler: index.html says where its packages are.
import { fromBinary } from '@bufbuild/protobuf';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createConnectTransport, createGrpcWebTransport } from '@connectrpc/connect-web';

import { isGuarded } from './address.js';
import { FinishReason } from './gen/outrider/v1/common_pb.js';
import { BadRequestDetailSchema } from './gen/outrider/v1/errors_pb.js';
import { GenerationService } from './gen/outrider/v1/generation_pb.js';

const TRANSPORTS = {
  'grpc-web': createGrpcWebTransport,
  connect: (options) => createConnectTransport({ ...options, useBinaryFormat: true }), // Envoy knows no other
};

/**
 * A client of the service behind a proxy such as "https://localhost:8443".
 *
 * `token` is shown with each call; throws a TypeError where others could read it on its way.
 */
export function connect(baseUrl, { protocol = 'grpc-web', token } = {}) {
  if (token && !isGuarded(baseUrl)) throw new TypeError('a token is sent over https only, or to this machine');
  const show = (next) => (request) => {
    request.header.set('authorization', `Bearer ${token}`);
    return next(request);
  };
  return createClient(GenerationService, TRANSPORTS[protocol]({ baseUrl, interceptors: token ? [show] : [] }));
}

/**
 * Gives the text of a generation to `print` as it arrives, and returns the last message.
 *
 * `options` may hold a `signal` that cancels the generation on the server too.
 */
export async function stream(client, request, print, { signal } = {}) {
  let finished;
  for await (const { event } of client.streamGenerate(request, { signal })) {
    if (event.case === 'finished') finished = event.value;
    if (event.case === 'finished' || event.case === 'chunk') print(event.value.text);
  }
  if (!finished) throw new ConnectError('the server ended the stream early', Code.DataLoss);
  return finished;
}

/** Tokens, their rate, the time to the first one, what speculation did, and why the text ended, in one line. */
export function figures({ reason, usage, timings, speculation }) {
  const seconds = (duration) => (duration ? Number(duration.seconds) + duration.nanos / 1e9 : 0);
  const count = usage.completionTokens;
  const decode = seconds(timings.decode);
  const parts = [`${count} token${count === 1 ? '' : 's'}`];
  if (count > 1 && decode > 0) parts.push(`${((count - 1) / decode).toFixed(1)} tokens/s`);
  if (timings.firstToken) parts.push(`first token after ${(seconds(timings.firstToken) * 1000).toFixed(0)} ms`);
  if (speculation.passes > 0) parts.push(`${speculation.tokensPerPass.toFixed(2)} tokens per pass`);
  const acceptance = (100 * speculation.accepted) / speculation.predicted;
  parts.push(speculation.predicted > 0 ? `${acceptance.toFixed(0)} % accepted` : 'no predictions');
  parts.push(`ended by ${(FinishReason[reason] ?? String(reason)).replaceAll('_', ' ').toLowerCase()}`);
  return parts.join(' · ');
}

/** The lines that tell a person what is wrong: one per bad field, or else the status. */
export function explain(failure) {
  const error = ConnectError.from(failure);
  const violations = error.details
    .filter(({ type }) => type.split('/').at(-1) === 'google.rpc.BadRequest') // Envoy's Connect has a URL there
    .flatMap(({ value }) => fromBinary(BadRequestDetailSchema, value).fieldViolations);
  if (violations.length === 0) return [error.message];
  return violations.map(({ field, description }) => `${field}: ${description}`);
}

/** Whether a failure is only that the generation was cancelled. */
export const isCancelled = (failure) => ConnectError.from(failure).code === Code.Canceled;
