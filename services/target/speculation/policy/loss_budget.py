"""LossBudget: how much time speculation may lose, and may so be given to try."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.policy_config import LossBudgetConfig


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a step has won, or lost where it is below zero, and what of its loss was paid in advance."""

    moment: float  # when it ended
    gain: float  # seconds
    advance: float  # seconds


class LossBudget:
    """Keeps what predictions cost a stream below a small share of any window of its life, whatever they are worth.

    It counts in seconds: what a step with predictions takes longer than its tokens would have taken without them is
    lost, what it takes less is won. What a window may lose is a share of it and what was won in it; what may be lost
    in all is a smaller share of all time. A draft has to prefill before it is of use: that is paid in advance, as far
    as what was won in the window pays for it or, where a stream is young, what is to be won in its first one.
    """

    def __init__(self, config: LossBudgetConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._limit = config.window * config.window_loss  # seconds that a whole window may lose
        self._streams: dict[Sequence, float] = {}  # since when each has been decoding, oldest first
        self._entries: deque[_Entry] = deque()  # of the latest window
        self._won = self._advanced = 0.0  # seconds in it; what was lost counts against what was won
        self._balance = self._limit  # seconds that may be lost for good
        self._is_open = True  # until more than that was lost, and from when half a window's loss is there again
        self._observed_at = -math.inf  # when a step ended last
        self._trial_until = -math.inf

    @property
    def is_unlimited(self) -> bool:
        """Whether nobody waits for a token."""
        return not self._streams

    @property
    def is_overdrawn(self) -> bool:
        """Whether more was lost than may be, and is not paid yet."""
        return not self._is_open

    def join(self, sequence: Sequence) -> None:
        """A stream is decoding; nothing if it was before."""
        if sequence not in self._streams:
            self._streams[sequence] = self._clock()

    def leave(self, sequence: Sequence) -> None:
        """A stream has ended: those that are younger do not know what went before them."""
        self._streams.pop(sequence, None)
        self._forget(self._clock())

    def for_step(self, expected: float, *, step: float) -> float:
        """What the next step may lose at most, where predictions are expected to win such a share of the time, and a
        step without them takes so long.
        """
        if self.is_unlimited:
            return math.inf
        window = self._window(step)
        return max(0.0, self._left(window) + self._promise(window, expected)) if self._is_open else 0.0

    def for_prefill(self, expected: float, *, step: float) -> float:
        """What may be paid in advance: in a window of few steps a stream may have bad luck, and lose though predictions
        are good.
        """
        if self.is_unlimited:
            return math.inf
        window = self._window(step)
        promise = self._promise(window, expected) - self._config.luck * math.sqrt(window * step)
        return max(0.0, self._left(window) - self._advanced + max(0.0, promise)) if self._is_open else 0.0

    @property
    def is_trial(self) -> bool:
        """Whether more may be lost than otherwise, to see what a draft is worth."""
        return self._clock() < self._trial_until

    def begin_trial(self) -> None:
        """For a window more may be lost, where none of what may be for good was yet."""
        if not self.is_unlimited and self._balance >= self._limit:
            self._trial_until = self._clock() + self._config.window

    def for_probe(self, *, step: float) -> float:
        """What a step may lose that is expected to win nothing."""
        return max(0.0, min(self.for_step(0.0, step=step) - self._advanced, self._balance))

    def refuse(self) -> None:
        """Predictions that would pay are too dear now: if more was lost than may be, it is to be paid first."""
        if self._balance < 0 and not self.is_trial:
            self._is_open = False

    def observe(self, gain: float, *, advance: float = 0.0) -> None:
        """A step has ended, with so many seconds won, or lost where it is below zero, some of them in advance."""
        if self.is_unlimited:
            return
        now = self._clock()
        self._entries.append(_Entry(now, gain, advance))
        self._won, self._advanced = self._won + gain, self._advanced + advance
        self._forget(now)
        elapsed = min(now - self._observed_at, self._age(now))
        self._observed_at = now
        most = self._limit + max(0.0, self._won)
        self._balance = min(most, self._balance + gain + self._config.income * elapsed)
        self._is_open = self._is_open or self._balance > self._config.reopen_at * self._limit

    def _window(self, step: float) -> float:
        """The time in which what is lost must be small: a window, or the life of a stream if that is shorter."""
        now = self._clock()
        self._forget(now)
        lives = (now - since + sequence.num_remaining * step for sequence, since in self._streams.items())
        return min(self._config.window, *lives)

    def _left(self, window: float) -> float:
        loss = self._config.trial_loss if self.is_trial else self._config.window_loss
        return window * loss + self._won + self._advanced

    def _promise(self, window: float, expected: float) -> float:
        """Of what will be won in the rest of the oldest stream's first window, what may be relied upon."""
        return self._config.trust * max(0.0, expected) * max(0.0, window - self._age(self._clock()))

    def _age(self, now: float) -> float:
        return now - next(iter(self._streams.values()))

    def _forget(self, now: float) -> None:
        begin = math.inf if self.is_unlimited else now - min(self._config.window, self._age(now))
        while self._entries and self._entries[0].moment < begin:
            entry = self._entries.popleft()
            self._won, self._advanced = self._won - entry.gain, self._advanced - entry.advance
        if not self._entries:
            self._won = self._advanced = 0.0
