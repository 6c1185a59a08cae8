"""exllamav2's skew, which is not a cut: numbers in (0, 1) and the tokens that they fall on, there and here."""

import numpy as np

from tests.native.harness.sampling_reference import Settings
from tests.native.harness.step_reference import best_first
from tests.peers.cases import UNEXPLAINED, Tally
from tests.peers.exllama_samplers import ExllamaSamplers
from tests.peers.our_sampler import our_shares
from tests.peers.rows import random_rows

_ASKED = tuple(Settings(skew=skew) for skew in (0.7, -0.7, 0.2))
_NEAR = 5e-4  # exllamav2 takes 0.9998 of the number after the skew
NEAR = "it takes 0.9998 of the number, which is within that of a token's end, or equal tokens in another order"


def compared_draws(peer: ExllamaSamplers, count: int) -> Tally:
    """One number for each of so many rows."""
    tally, rng = Tally(), np.random.default_rng(6)
    for logits in random_rows(count):
        asked = [_ASKED[row % len(_ASKED)] for row in range(len(logits))]
        for row, ours in enumerate(our_shares(logits, asked, [[]] * len(logits))):
            chance = float(rng.uniform(1e-6, 1))
            order = best_first(logits[row].astype(np.float64))
            through = np.cumsum(ours[order])
            low, here, high = np.searchsorted(through, [chance * (1 - _NEAR) - 1e-6, chance, chance + 1e-6])
            theirs = peer.drawn(logits[row], asked[row].skew, chance)
            tally.rows += 1
            if theirs != order[min(here, len(order) - 1)]:
                near = logits[row][order[low : high + 1]]
                tally.reasons[NEAR if logits[row][theirs] in near else UNEXPLAINED] += 1
    return tally
