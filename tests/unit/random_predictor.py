"""RandomPredictor: predicts what a toy model says, but for slips, and checks the calls that it gets."""

import math
from random import Random

from services.engine.events import FollowCounts
from services.target.sequence.sequence import Sequence
from tests.harness.servers.silent_predictor import SilentPredictor
from tests.unit.sequences import END, VOCAB_SIZE
from tests.unit.toy_model import next_token


class RandomPredictor(SilentPredictor):
    """Predicts right, wrong, too much, nothing, or ids that are no tokens; and keeps the sequences to follow."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.followed: dict[Sequence, int] = {}  # and how many of their tokens it has been shown

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> list[int]:
        assert self.followed[sequence] == len(sequence.tokens)
        history = [*sequence.tokens]
        for _ in range(self._random.randint(0, limit + 2)):
            history.append(next_token(history))
            if self._random.random() < 0.2:
                history[-1] = self._random.choice([*b"xyz", END, VOCAB_SIZE, -5])
        return history[len(sequence.tokens) :]

    def commit(self, sequence: Sequence) -> FollowCounts:
        self.followed[sequence] = len(sequence.tokens)
        return FollowCounts()

    def close(self, sequence: Sequence) -> FollowCounts:
        del self.followed[sequence]
        return FollowCounts()
