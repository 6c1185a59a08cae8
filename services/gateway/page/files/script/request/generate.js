// Reads one answer as a stream of events, and resumes it after the last event if the connection breaks.

import { pause } from "../pause.js";
import { Problem } from "./api.js";
import { readEvents } from "./events.js";

const PATH = "/v1/generate";
const TRANSIENT = [502, 503, 504]; // statuses of a gateway or proxy that cannot reach its server
const PAUSES = [200, 500, 1000, 2000, 4000, 4000]; // milliseconds

/** Yields the events of the answer; calls `onResume` for each new connection. Throws Problem, Unreachable and AbortError. */
export async function* generate(api, body, { signal, onResume }) {
  const sent = JSON.stringify(body); // a resumption must send the same bytes
  let last = null;
  for (let failures = 0; ; ) {
    try {
      const headers = last === null ? {} : { "last-event-id": last };
      const response = await api.post(PATH, sent, { headers, signal });
      for await (const event of readEvents(response)) {
        if (event.name === "error") throw new Problem(event.data.error.message, 0, event.data.error.param);
        [last, failures] = [event.id, 0];
        yield event;
        if (event.name === "finished") return;
      }
      throw new TypeError("the connection has ended before the answer did");
    } catch (error) {
      const isFinal = signal.aborted || (error instanceof Problem && !TRANSIENT.includes(error.status));
      if (isFinal || last === null || failures >= PAUSES.length) throw error;
      await pause(PAUSES[failures], signal);
      failures += 1;
      onResume();
    }
  }
}
