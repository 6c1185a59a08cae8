// Thread: the turns that are shown in one place.

import { Turn } from "./turn.js";

export class Thread {
  #turns = [];

  constructor(place) {
    this.place = place;
  }

  get views() {
    return this.#turns.flatMap((turn) => turn.views);
  }

  /** Begins a turn; earlier ones are closed, or removed if the conversation does not continue from them. */
  begin(asked, address) {
    for (const turn of this.#turns) turn.isKept ? turn.close() : this.remove(turn);
    const turn = new Turn(asked, address);
    this.#turns.push(turn);
    this.place.append(turn.element);
    return turn;
  }

  remove(turn) {
    this.#turns = this.#turns.filter((one) => one !== turn);
    turn.element.remove();
  }

  clear() {
    this.#turns = [];
    this.place.replaceChildren();
  }
}
