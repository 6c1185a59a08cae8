#!/usr/bin/env node
// Continues a prompt and prints the text as it streams, then what it cost.
import { openSync, readFileSync, writeSync } from 'node:fs';
import { parseArgs } from 'node:util';

import grpc from '@grpc/grpc-js';

import { Client, OutriderError } from './outrider/index.js';

const USAGE = `usage: node stream.js [--address HOST:PORT]... [--max-tokens N] [--temperature X] [--seed N] [--logprobs FILE]
    [--max-retries N] [--timeout SECONDS] [--tls-ca FILE [--tls-cert FILE --tls-key FILE]] [--token-file FILE] PROMPT`;
const FAILED = 1;
const WRONG_USAGE = 2;
const INTERRUPTED = 130; // as shells report a process that SIGINT ended

function readArguments() {
  const string = { type: 'string' };
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      address: { ...string, multiple: true, default: ['localhost:50051'] },
      'max-tokens': string,
      temperature: string,
      seed: string,
      logprobs: string,
      'max-retries': { ...string, default: '10' },
      timeout: string,
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
  const decimal = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
  const read = (name) => (values[name] === undefined ? null : readFileSync(values[name]));
  return {
    addresses: values.address,
    maxRetries: Number(number('max-retries', /^\d+$/)),
    timeout: values.timeout && Number(number('timeout', decimal)),
    logprobs: values.logprobs === undefined ? undefined : openSync(values.logprobs, 'w'),
    authorities: read('tls-ca'),
    key: read('tls-key'),
    chain: read('tls-cert'),
    token: read('token-file')?.toString().trim(),
    // What is left out is undefined, and a field that is undefined is not sent: the server's default holds.
    request: {
      prompt: { text: positionals[0] },
      sampling: {
        temperature: number('temperature', decimal),
        seed: number('seed', /^\d+$/), // a string, since a JavaScript number holds only 53 of the 64 bits
      },
      stop: { max_tokens: number('max-tokens', /^-?\d+$/) },
      output: { logprobs: values.logprobs === undefined ? undefined : true },
    },
  };
}

/** TLS where there are authorities to trust, else clear text; a certificate of ours goes with its key. */
function credentials({ authorities, key, chain }) {
  if (authorities) return grpc.credentials.createSsl(authorities, key, chain);
  if (key || chain) throw new Error('--tls-cert and --tls-key need --tls-ca');
  return undefined;
}

/** Prints the text of a stream as it arrives, writes its log-probabilities to a file, if one is open, returns the last message. */
async function printText(stream, logprobs) {
  let hasText = false;
  try {
    for await (const { text, records } of stream) {
      process.stdout.write(text);
      hasText ||= text !== '';
      for (const { id, raw_logprob } of records) writeSync(logprobs, `${id} ${raw_logprob}\n`);
    }
  } finally {
    if (hasText) process.stdout.write('\n');
  }
  return stream.result.finished;
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
  if (!(error instanceof OutriderError)) return [error.message];
  if (error.violations.length === 0) return [`${grpc.status[error.code]}: ${error.message}`];
  return error.violations.map(({ field, description }) => `${field}: ${description}`);
}

async function main() {
  let client;
  let options;
  try {
    options = readArguments();
    const { addresses, token, maxRetries } = options;
    client = new Client(addresses, { credentials: credentials(options), token, maxRetries });
  } catch (error) {
    console.error(`${error.message}\n${USAGE}`);
    return WRONG_USAGE;
  }
  const stream = client.stream(options.request, { timeout: options.timeout });
  process.once('SIGINT', () => stream.cancel());
  try {
    console.error(figures(await printText(stream, options.logprobs)));
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
