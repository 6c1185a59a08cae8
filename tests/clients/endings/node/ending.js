// Streams from ADDRESS and prints the text; a line on standard input closes the client. HOW "leave" leaves the stream
// after its first chunk. An error's code is the last line.
import { createInterface } from 'node:readline';

import { Client } from './outrider/index.js';

const [address, how] = process.argv.slice(2);
const client = new Client(address);
createInterface({ input: process.stdin }).once('line', () => client.close());
try {
  for await (const { text } of client.stream({ prompt: { text: 'def quicksort' } })) {
    process.stdout.write(text);
    if (how === 'leave') break;
  }
} catch (error) {
  process.stdout.write(`\n${error.code}\n`);
}
