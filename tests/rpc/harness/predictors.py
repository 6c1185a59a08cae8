"""Predictors that control the engine's pace, since it asks them between two passes."""

import math
import threading
import time
from collections.abc import Sequence as Seq

from services.target.sequence.sequence import Sequence
from tests.harness.servers.silent_predictor import SilentPredictor


class SlowPredictor(SilentPredictor):
    """Lets the engine make no more than two hundred passes per second."""

    def predict(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        time.sleep(0.005)
        return []


class GatePredictor(SilentPredictor):
    """Holds the engine before its next decoding pass while the gate is shut; where it has a place, before that of a
    sequence which has so many tokens.
    """

    def __init__(self, behind: int = 0) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self._behind = behind

    def predict(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        if sequence.num_generated >= self._behind:
            self.gate.wait()
        return []


class BrokenPredictor(SilentPredictor):
    """Breaks the engine when it is told to."""

    def __init__(self) -> None:
        self.is_broken = False

    def predict(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        if self.is_broken:
            raise RuntimeError("broken on purpose")
        return []


class SlippingPredictor(SilentPredictor):
    """Knows the answer, and gets every third token of it wrong."""

    def __init__(self, answer: Seq[int]) -> None:
        self._told = [token ^ 1 if index % 3 == 2 else token for index, token in enumerate(answer)]

    def predict(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        return self._told[sequence.num_generated :][:limit]
