// Outrider's client: generated text as it is written, unbroken by servers that come and go.
export { Client } from './client.js';
export { OutriderError, ServerLost } from './errors.js';
