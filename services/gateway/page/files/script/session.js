// Session: asks for answers. Each text replaces the one before; messages continue a conversation.

import { Replay } from "./answer/replay.js";
import { Thread } from "./answer/thread.js";
import { find } from "./dom.js";
import { Conversation } from "./request/conversation.js";
import { changedLink, linkTo } from "./request/link.js";
import { Runner } from "./runner.js";

export class Session {
  #threads = { text: new Thread(find("answers")), chat: new Thread(find("turns")) };
  #conversation = new Conversation();
  #form;
  #runner;
  #replay;
  #perform;

  /** `point(view, pass)` describes a pass during a replay; `perform(work)` runs what a click begins, and shows its errors. */
  constructor(api, form, point, perform) {
    this.#form = form;
    this.#perform = perform;
    this.#runner = new Runner(api);
    this.#replay = new Replay(point);
  }

  get isBusy() {
    return this.#runner.isBusy;
  }

  /** The views of all answers that are shown. */
  get views() {
    return this.#thread.views;
  }

  get #thread() {
    return this.#threads[this.#form.mode];
  }

  /** Asks for an answer, with `isCompared` also for the target's alone. Throws Problem, TypeError and AbortError. */
  async ask(isCompared) {
    this.#replay.stop();
    const parameters = this.#form.parameters();
    const isBegun = this.#form.mode === "chat" && this.#conversation.isBegun;
    const link = isBegun ? null : linkTo(this.#form.filled(parameters.seed)); // it cannot repeat earlier messages
    await (this.#form.mode === "chat" ? this.#talk(parameters, link, isCompared) : this.#complete(parameters, link, isCompared));
  }

  stop() {
    this.#runner.stop();
    this.#replay.stop();
  }

  forget() {
    this.stop();
    this.#conversation.forget();
    this.#threads.chat.clear();
  }

  #complete(parameters, link, isCompared) {
    const turn = this.#thread.begin(null, link);
    return this.#run({ prompt: this.#form.prompt, ...parameters }, turn, isCompared);
  }

  // A stopped answer is kept as far as it came. After a failure the message can be sent again.
  async #talk(parameters, link, isCompared) {
    const { prompt } = this.#form;
    const messages = this.#conversation.ask(prompt);
    const turn = this.#thread.begin(prompt, link);
    this.#form.prompt = "";
    turn.element.scrollIntoView();
    const failure = await this.#run({ messages, ...parameters }, turn, isCompared).catch((error) => error);
    turn.isKept = turn.text !== "" && (!failure || failure.name === "AbortError");
    if (turn.isKept) this.#conversation.keep(messages, turn.text);
    else if (this.#conversation.isAsking(messages)) this.#form.prompt ||= prompt;
    if (failure) throw failure;
  }

  async #run(body, turn, isCompared) {
    const thread = this.#thread;
    try {
      await this.#runner.run(body, turn, isCompared);
      this.#end(turn, body);
    } finally {
      if (turn.isEmpty) thread.remove(turn);
    }
  }

  #end(turn, body, step = body.max_tokens) {
    const replay = (view) => this.#replay.play(view);
    turn.end(replay, () => this.#perform(() => this.#lengthen(turn, { ...body, max_tokens: body.max_tokens + step }, step)));
  }

  // By one seed the longer answer begins with the bytes of the shorter one.
  async #lengthen(turn, body, step) {
    this.#replay.stop();
    try {
      await this.#runner.lengthen(body, turn);
      turn.address &&= changedLink(turn.address, "max_tokens", body.max_tokens);
      this.#end(turn, body, step);
    } finally {
      if (body.messages) this.#conversation.keep(body.messages, turn.text);
    }
  }
}
