"""UnbannedPredictor: predicts what the model would generate if nothing were banned."""

import math
from random import Random

from services.target.sequence.sequence import Sequence
from tests.harness.servers.silent_predictor import SilentPredictor
from tests.unit.banned_model import VOCAB_SIZE, scores_of


class UnbannedPredictor(SilentPredictor):
    """Predicts what the model would generate if nothing were banned; now and then something else."""

    num_predictions = 6

    def __init__(self, random: Random) -> None:
        self._random = random

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> list[int]:
        history = [*sequence.tokens]
        for _ in range(limit):
            history.append(int(scores_of(sequence.request, history).argmax()))
            if self._random.random() < 0.1:
                history[-1] = self._random.randrange(VOCAB_SIZE)
        return history[len(sequence.tokens) :]
