// The page: a form, the text as it arrives, and a button that cancels.
import { mayBeLinked } from './address.js';
import { connect, explain, figures, isCancelled, stream } from './stream.js';

const form = document.querySelector('form');
const text = document.querySelector('#text');
const status = document.querySelector('#status');
let running;

/** What is left empty is not sent: the server's default holds. */
function readRequest(fields) {
  const number = (name, parse) => (fields.get(name) ? parse(fields.get(name)) : undefined);
  return {
    prompt: { input: { case: 'text', value: fields.get('prompt') } },
    sampling: { temperature: number('temperature', Number), seed: number('seed', BigInt) },
    stop: { maxTokens: number('max-tokens', Number) },
  };
}

async function run() {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  text.textContent = status.textContent = '';
  document.title = 'streaming';
  try {
    const fields = new FormData(form);
    const client = connect(fields.get('address'), { protocol: fields.get('protocol'), token: fields.get('token') });
    const print = (more) => text.append(more);
    const finished = await stream(client, readRequest(fields), print, { signal });
    status.textContent = figures(finished);
    document.title = 'done';
  } catch (error) {
    status.textContent = isCancelled(error) ? 'cancelled' : explain(error).join('\n');
    document.title = isCancelled(error) ? 'cancelled' : 'failed';
  }
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  run();
});
form.addEventListener('reset', (event) => {
  event.preventDefault();
  running?.abort();
});
// The page's own address fills the fields: ?address=https://localhost:8443&prompt=def+f(). A link must not choose another
// machine, because the user would type a token for it in good faith.
for (const [name, value] of new URLSearchParams(location.search)) {
  if (name === 'address' && !mayBeLinked(value, location.hostname)) {
    status.textContent = `a link may name this page's machine or your own, others are to be typed: ${value}`;
  } else if (form.elements[name]) form.elements[name].value = value;
}
