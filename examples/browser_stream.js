// Streams a completion from Outrider's gateway in a browser (or Node). `outrider gateway --cors-origin ORIGIN` lets your page.
// The same body with the last event's id in `Last-Event-ID` continues after that event, at any gateway, with the same bytes.

/** Yields the text as it comes; when the connection breaks it goes on where it was, `retries` times in a row at most. */
export async function* complete(url, body, { retries = 5, signal } = {}) {
  let lastEventId = "";
  for (let failures = 0; ; failures++) {
    try {
      for await (const event of events(url, body, lastEventId, signal)) {
        if (event.data === "[DONE]") return;
        lastEventId = event.id || lastEventId;
        failures = 0;
        const sent = JSON.parse(event.data);
        if (sent.error) throw Object.assign(new Error(sent.error.message), { isFinal: true });
        yield sent.choices[0]?.text ?? "";
      }
      throw new Error("the stream ended early");
    } catch (error) {
      if (error.isFinal || signal?.aborted || failures >= retries) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** failures));
    }
  }
}

async function* events(url, body, lastEventId, signal) {
  const headers = { "Content-Type": "application/json", ...(lastEventId && { "Last-Event-ID": lastEventId }) };
  const asked = JSON.stringify({ ...body, stream: true });
  const response = await fetch(`${url}/v1/completions`, { method: "POST", headers, body: asked, signal });
  if (!response.ok) {
    const { error } = await response.json();
    throw Object.assign(new Error(`${error.param ?? response.status}: ${error.message}`), { isFinal: response.status < 500 });
  }
  let text = "";
  for await (const part of parts(response)) {
    text += part;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const event = { id: "", data: "" };
      for (const line of text.slice(0, end).split("\n")) {
        const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
        if (name in event) event[name] += value;
      }
      if (event.data) yield event;
    }
  }
}

// Not every browser can iterate over a stream itself.
async function* parts(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let part; !(part = await reader.read()).done; ) yield part.value;
  } finally {
    reader.cancel().catch(() => {});
  }
}
