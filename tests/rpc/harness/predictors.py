"""Predictors that control the engine's pace.

They do so where it asks whether they serve a sequence: before every decoding pass, whether AUTO requests predictions
or not. What the pass before has generated is not yet on its way to the readers then.
"""

import math
import threading
import time
from collections.abc import Sequence as Seq

from services.target.sequence.sequence import Sequence
from tests.harness.servers.silent_predictor import SilentPredictor


class SlowPredictor(SilentPredictor):
    """Lets the engine make no more than two hundred passes per second."""

    def serves(self, sequence: Sequence) -> bool:
        time.sleep(0.005)
        return True


class GatePredictor(SilentPredictor):
    """Holds the engine, while the gate is shut, before a pass for a sequence that has so many tokens; by default the
    fewest of which one is on its way to the reader.
    """

    def __init__(self, behind: int = 2) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self._behind = behind

    def serves(self, sequence: Sequence) -> bool:
        if sequence.num_generated >= self._behind:
            self.gate.wait()
        return True


class BrokenPredictor(SilentPredictor):
    """Breaks the engine when it is told to."""

    def __init__(self) -> None:
        self.is_broken = False

    def serves(self, sequence: Sequence) -> bool:
        if self.is_broken:
            raise RuntimeError("broken on purpose")
        return True


class SlippingPredictor(SilentPredictor):
    """Knows the answer, and gets every third token of it wrong."""

    def __init__(self, answer: Seq[int]) -> None:
        self._told = [token ^ 1 if index % 3 == 2 else token for index, token in enumerate(answer)]

    def predict(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        return self._told[sequence.num_generated :][:limit]
