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

  /** Begins a turn; earlier ones that the conversation does not continue from are removed. */
  begin(asked, address) {
    for (const turn of this.#turns.filter((one) => !one.isKept)) this.remove(turn);
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
