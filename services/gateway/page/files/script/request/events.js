// Server-sent events, read from a response: EventSource cannot send a body.

/** Yields the events of a response, as {name, id, data}; data is parsed JSON. */
export async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (pending + value).split("\n\n");
      pending = parts.pop();
      yield* parts.map(parse).filter((event) => event.data !== null); // without comments, which fill a silence
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parse(text) {
  const event = { name: "message", id: null, data: null };
  for (const line of text.split("\n")) {
    const colon = line.indexOf(": ");
    const [field, value] = [line.slice(0, colon), line.slice(colon + 2)];
    if (field === "event") event.name = value;
    else if (field === "id") event.id = value;
    else if (field === "data") event.data = JSON.parse(value);
  }
  return event;
}
