"""LoopDetector: detects that the tokens of an answer repeat themselves."""

import numpy as np


class LoopDetector:
    """Detects that the last `window` tokens repeat one run of tokens at least `repetitions` times.

    They do if and only if they have a period p with p * repetitions <= window: each token equals the one p before it.
    For every such p the detector counts the last tokens in a row that do.
    """

    def __init__(self, *, window: int, repetitions: int) -> None:
        """`window` is at least `repetitions`, so that there is a period."""
        periods = np.arange(1, window // repetitions + 1)
        self._num_needed = window - periods  # [periods]
        self._num_equal = np.zeros_like(periods)  # [periods]
        self._latest = np.full_like(periods, -1)  # [periods], the last tokens, newest first

    def push(self, token_id: int) -> bool:
        """Take one token and return whether the tokens are in a loop."""
        self._num_equal = np.where(self._latest == token_id, self._num_equal + 1, 0)
        self._latest = np.roll(self._latest, 1)
        self._latest[0] = token_id
        return bool((self._num_equal >= self._num_needed).any())
