"""Predictors that control the engine's pace.

They do so when it asks whether they serve a sequence. It asks before every decoding pass, even if AUTO requests no
predictions. The reader has not been sent the token of the previous pass then.
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
    """Holds the engine, while the gate is shut, before a pass for a sequence that has this many tokens.

    The default is 2, so that the reader gets the first one.
    """

    def __init__(self, num_tokens: int = 2) -> None:
        self.gate, self.is_reached = threading.Event(), threading.Event()
        self.gate.set()
        self._num_tokens = num_tokens

    def serves(self, sequence: Sequence) -> bool:
        if sequence.num_generated >= self._num_tokens:
            self.is_reached.set()
            self.gate.wait()
        return True


class BrokenPredictor(SilentPredictor):
    """Breaks the engine when the test wants it."""

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

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        return self._told[sequence.num_generated :][:limit]
