"""Rows through a peer's sampler and through ours: how many differ, and for which reasons."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from tests.native.harness.sampling_reference import Doubles, Floats, Settings
from tests.peers.cases import UNEXPLAINED, Case, Tally
from tests.peers.our_sampler import our_shares
from tests.peers.reasons import Difference
from tests.peers.rows import random_history, random_rows

_CLOSE = 1e-5  # probabilities that are summed in float32


class Peer(Protocol):
    """What llama.cpp's and exllamav2's samplers have."""

    def shares(self, name: str, logits: Floats, asked: Settings, history: list[int]) -> Doubles: ...


def compared(case: Case, peer: Peer, count: int) -> Tally:
    """A case over so many random rows."""
    tally, rng = Tally(), np.random.default_rng(5)
    for logits in random_rows(count):
        asked = [case.asked[row % len(case.asked)] for row in range(len(logits))]
        histories = [random_history(rng, logits.shape[1]) if case.has_history else [] for _ in asked]
        for row, ours in enumerate(our_shares(logits, asked, histories)):
            theirs = peer.shares(case.name, logits[row], asked[row], histories[row])
            tally.rows += 1
            tally.reasons.update(_reasons(case, logits[row], asked[row], ours, theirs))
    return tally


def _reasons(case: Case, logits: Floats, asked: Settings, ours: Doubles, theirs: Doubles) -> Iterator[str]:
    """None where both are the same, else one."""
    close = _CLOSE * max(1, len(logits) / 10_000)
    same = np.array_equal(ours > 0, theirs > 0) if case.cuts else np.allclose(ours, theirs, rtol=0, atol=close)
    if not same:
        difference = Difference(logits.astype(np.float64), asked, case.number, ours > 0, theirs)
        yield next((each.text for each in case.reasons if each.explains(difference)), UNEXPLAINED)
