// The page: a form, the text as it arrives, and a button that cancels.
import { connect, explain, figures, isCancelled, stream } from './stream.js';

const form = document.querySelector('form');
const text = document.querySelector('#text');
const told = document.querySelector('#told');
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
  text.textContent = told.textContent = '';
  document.title = 'streaming';
  try {
    const fields = new FormData(form);
    const client = connect(fields.get('address'), fields.get('protocol'));
    const print = (more) => text.append(more);
    const finished = await stream(client, readRequest(fields), print, { token: fields.get('token'), signal });
    told.textContent = figures(finished);
    document.title = 'done';
  } catch (error) {
    told.textContent = isCancelled(error) ? 'cancelled' : explain(error).join('\n');
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
// What the page's own address says goes into the fields: ?address=https://outrider.example&prompt=def+f()
for (const [name, value] of new URLSearchParams(location.search)) {
  if (form.elements[name]) form.elements[name].value = value;
}
