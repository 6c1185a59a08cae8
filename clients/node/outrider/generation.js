// What has arrived of one generation, and how to take it up again. It does no input or output itself.
import grpc from '@grpc/grpc-js';

import { OutriderError } from './errors.js';

/** One generation over as many calls as it takes. */
export class Generation {
  started;
  finished;
  resumed = 0;
  #request;
  #text = '';
  #tokenIds;
  #records = [];
  #promptRecords = [];

  constructor(request) {
    if ((request.num_samples ?? 1) !== 1) throw new TypeError('num_samples: one stream is one sample');
    this.#request = { ...request, output: { ...request.output, prompt_token_ids: true } };
    this.#tokenIds = [...(request.continue_from?.token_ids ?? [])];
  }

  /** The request to send now: the original one until the generation has started, then its continuation. */
  nextRequest() {
    const { started } = this;
    if (!started) return this.#request;
    const { prompt, sampling, grammar, output } = this.#request;
    const noCalls = prompt?.chat?.tool_choice?.mode === 'TOOL_CHOICE_MODE_NONE';
    return {
      ...this.#request,
      prompt: { ...prompt, text: undefined, chat: undefined, token_ids: { ids: started.prompt_token_ids } },
      // Parsing their calls needs the schemas.
      output: { ...output, tools: noCalls ? [] : (prompt?.chat?.tools ?? output?.tools) },
      sampling: { ...sampling, seed: started.seed },
      request_id: started.request_id,
      grammar: started.grammar ?? grammar, // the server's own, where it made one of a tool choice
      continue_from: { fingerprint: started.fingerprint, token_ids: this.#tokenIds },
    };
  }

  /** Takes in one event and returns its chunk, if it is one, or the last text if it ends the generation. */
  receive(response) {
    switch (response.event) {
      case 'started':
        this.#receiveStarted(response.started);
        return undefined;
      case 'prefill':
        this.#promptRecords.push(...response.prefill.records);
        return undefined;
      case 'chunk':
        return this.#receiveChunk(response.chunk);
      case 'finished':
        return this.#receiveFinished(response.finished);
      default:
        return undefined; // an event that is newer than this client
    }
  }

  #receiveStarted(started) {
    if (!this.started) {
      this.started = started;
      return;
    }
    const { fingerprint, seed } = this.started;
    if (started.fingerprint !== fingerprint || started.seed !== seed) {
      const message = `the server continues with fingerprint ${started.fingerprint} and seed ${started.seed}, `;
      const meant = `but the generation has ${fingerprint} and ${seed}`;
      throw new OutriderError(grpc.status.FAILED_PRECONDITION, message + meant);
    }
    this.resumed += 1;
    if (this.#tokenIds.length === 0) this.#promptRecords = []; // they come anew
  }

  #receiveChunk(chunk) {
    this.#text += chunk.text;
    this.#tokenIds.push(...chunk.token_ids);
    this.#records.push(...chunk.records);
    return chunk;
  }

  #receiveFinished(finished) {
    this.finished = finished;
    this.#text += finished.text;
    const { text, message_deltas } = finished;
    if (!text && message_deltas.length === 0) return undefined;
    return { text, message_deltas, token_ids: [], records: [], pass_reports: [], suppressed: [] };
  }

  /** All that has arrived so far. */
  received() {
    return {
      started: this.started,
      text: this.#text,
      tokenIds: [...this.#tokenIds],
      records: [...this.#records],
      promptRecords: [...this.#promptRecords],
    };
  }
}
