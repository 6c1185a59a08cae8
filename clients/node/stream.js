#!/usr/bin/env node
// Continues a prompt and prints the text as it streams, then what it cost.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

const USAGE = `usage: node stream.js [--address HOST:PORT] [--max-tokens N] [--temperature X] [--seed N]
    [--tls-ca FILE [--tls-cert FILE --tls-key FILE]] [--token-file FILE] PROMPT`;
const LOCAL = /^(unix:|localhost:|127\.\d+\.\d+\.\d+:|\[::1\]:)/;
const FAILED = 1;
const WRONG_USAGE = 2;
const INTERRUPTED = 130; // as shells report a process that SIGINT ended

const protos = protoLoader.loadSync(['outrider/v1/generation.proto', 'outrider/v1/errors.proto'], {
  includeDirs: [fileURLToPath(new URL('../../protos', import.meta.url))],
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true, // without it, fields that are zero would be undefined
  oneofs: true,
});
const { GenerationService } = grpc.loadPackageDefinition(protos).outrider.v1;

function readArguments() {
  const string = { type: 'string' };
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      address: { ...string, default: 'localhost:50051' },
      'max-tokens': string,
      temperature: string,
      seed: string,
      'tls-ca': string,
      'tls-cert': string,
      'tls-key': string,
      'token-file': string,
    },
  });
  if (positionals.length !== 1) throw new Error('exactly one prompt is needed');
  const number = (name, pattern) => {
    const text = values[name];
    if (text !== undefined && !pattern.test(text)) throw new Error(`--${name} cannot be ${JSON.stringify(text)}`);
    return text;
  };
  const read = (name) => (values[name] === undefined ? null : readFileSync(values[name]));
  return {
    address: values.address,
    authorities: read('tls-ca'),
    key: read('tls-key'),
    chain: read('tls-cert'),
    token: read('token-file')?.toString().trim(),
    // What is left out is undefined, and a field that is undefined is not sent: the server's default holds.
    request: {
      prompt: { text: positionals[0] },
      sampling: {
        temperature: number('temperature', /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i),
        seed: number('seed', /^\d+$/), // a string, since a JavaScript number holds only 53 of the 64 bits
      },
      stop: { max_tokens: number('max-tokens', /^-?\d+$/) },
    },
  };
}

/** TLS where there are authorities to trust, else clear text; a certificate of ours goes with its key. */
function credentials({ authorities, key, chain }) {
  if (authorities) return grpc.credentials.createSsl(authorities, key, chain);
  if (key || chain) throw new Error('--tls-cert and --tls-key need --tls-ca');
  return grpc.credentials.createInsecure();
}

/** What shows a token, if there is one: over TLS, or to this machine only. */
function metadata({ address, authorities, token }) {
  const shown = new grpc.Metadata();
  if (token === undefined) return shown;
  if (!authorities && !LOCAL.test(address)) throw new Error('a token is sent over TLS only, or to this machine');
  shown.set('authorization', `Bearer ${token}`);
  return shown;
}

/** Prints the text of a call as it arrives and returns the last message; throws the call's ServiceError. */
async function printText(call) {
  let finished;
  let hasText = false;
  const print = (text) => {
    process.stdout.write(text);
    hasText ||= text !== '';
  };
  try {
    for await (const response of call) {
      if (response.event === 'chunk') {
        print(response.chunk.text);
      } else if (response.event === 'finished') {
        finished = response.finished;
        print(finished.text);
      }
    }
  } finally {
    if (hasText) process.stdout.write('\n');
  }
  if (!finished) throw new Error('the server ended the stream early');
  return finished;
}

/** Tokens, their rate, the time to the first one, what speculation did, and why the text ended, in one line. */
function figures({ reason, usage, timings, speculation }) {
  const seconds = (duration) => (duration ? Number(duration.seconds) + duration.nanos / 1e9 : 0);
  const count = usage.completion_tokens;
  const decode = seconds(timings.decode);
  const parts = [`${count} token${count === 1 ? '' : 's'}`];
  if (count > 1 && decode > 0) parts.push(`${((count - 1) / decode).toFixed(1)} tokens/s`);
  if (timings.first_token) parts.push(`first token after ${(seconds(timings.first_token) * 1000).toFixed(0)} ms`);
  if (speculation.passes > 0) parts.push(`${speculation.tokens_per_pass.toFixed(2)} tokens per pass`);
  const acceptance = (100 * speculation.accepted) / speculation.predicted;
  parts.push(speculation.predicted > 0 ? `${acceptance.toFixed(0)} % accepted` : 'no predictions');
  parts.push(`ended by ${String(reason).replace('FINISH_REASON_', '').replaceAll('_', ' ').toLowerCase()}`);
  return parts.join(' · ');
}

/** The lines that tell a person what is wrong: one per bad field, or else the status. */
function explain(error) {
  if (!(error.metadata instanceof grpc.Metadata)) return [error.message];
  const violations = error.metadata
    .get('grpc-status-details-bin')
    .flatMap((bytes) => protos['outrider.v1.ErrorStatus'].deserialize(bytes).details)
    .filter((detail) => detail.type_url.endsWith('/google.rpc.BadRequest'))
    .flatMap((detail) => protos['outrider.v1.BadRequestDetail'].deserialize(detail.value).field_violations);
  if (violations.length === 0) return [`${grpc.status[error.code]}: ${error.details}`];
  return violations.map(({ field, description }) => `${field}: ${description}`);
}

async function main() {
  let client;
  let call;
  try {
    const options = readArguments();
    const shown = metadata(options);
    client = new GenerationService(options.address, credentials(options));
    call = client.StreamGenerate(options.request, shown);
  } catch (error) {
    console.error(`${error.message}\n${USAGE}`);
    return WRONG_USAGE;
  }
  process.once('SIGINT', () => call.cancel());
  try {
    console.error(figures(await printText(call)));
    return 0;
  } catch (error) {
    if (error.code === grpc.status.CANCELLED) return INTERRUPTED;
    for (const line of explain(error)) console.error(line);
    return FAILED;
  } finally {
    client.close();
  }
}

process.exitCode = await main();
