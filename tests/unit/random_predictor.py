"""RandomPredictor: predicts what a toy model says, but for slips, and checks what it is told."""

import math
from random import Random

from services.engine.events import FollowCounts
from services.target.sequence.sequence import Sequence
from tests.harness.servers.silent_predictor import SilentPredictor
from tests.unit.sequences import END, VOCAB_SIZE
from tests.unit.toy_model import next_token


class RandomPredictor(SilentPredictor):
    """Predicts right, wrong, too much, nothing, or what is no token; and knows whom it was told to follow."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.followed: dict[Sequence, int] = {}  # and how many tokens it has been told of

    def predict(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> list[int]:
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
