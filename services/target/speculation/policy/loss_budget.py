"""LossBudget: limits how much time speculation may lose, and so how much it may try."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.policy_config import LossBudgetConfig


@dataclass(frozen=True, slots=True)
class _Entry:
    """The gain or loss of one step."""

    moment: float  # when it ended
    gain: float  # seconds, negative for a loss
    advance: float  # seconds of it that were paid in advance


class LossBudget:
    """Keeps the cost of predictions for a stream below a small share of any window of its life, however bad they are.

    It counts seconds: the time that a step with predictions takes longer than its tokens would have taken without them
    is a loss, a shorter time a gain. A window may lose a share of its length and the gains in it; in total, a smaller
    share of all time may be lost. A draft must prefill before it is useful: this is paid in advance, within the gains
    in the window or, for a young stream, within the gains expected in its first window.
    """

    def __init__(self, config: LossBudgetConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._limit = config.window * config.window_loss  # seconds that a whole window may lose
        self._streams: dict[Sequence, float] = {}  # when each began decoding, oldest first
        self._entries: deque[_Entry] = deque()  # of the latest window
        self._won = self._advanced = 0.0  # seconds in the latest window; losses are subtracted from gains
        self._balance = self._limit  # seconds that may be lost in total
        self._is_open = True  # closed when more than that was lost, until part of a window's loss is available again
        self._observed_at = -math.inf  # when a step ended last
        self._trial_until = -math.inf

    @property
    def is_unlimited(self) -> bool:
        """Whether no stream is decoding, so that no client can lose time."""
        return not self._streams

    @property
    def is_overdrawn(self) -> bool:
        """Whether more was lost than is allowed, and is not made up for yet."""
        return not self._is_open

    def join(self, sequence: Sequence) -> None:
        """Add a stream that has begun to decode; does nothing if it was added before."""
        if sequence not in self._streams:
            self._streams[sequence] = self._clock()

    def leave(self, sequence: Sequence) -> None:
        """Remove a stream that has ended, and forget entries from before the others began."""
        self._streams.pop(sequence, None)
        self._forget(self._clock())

    def for_step(self, expected: float, *, step: float) -> float:
        """The most seconds that the next step may lose, given the share of time that predictions are expected to save,
        and the seconds of a step without them.
        """
        if self.is_unlimited:
            return math.inf
        window = self._window(step)
        return max(0.0, self._left(window) + self._promise(window, expected)) if self._is_open else 0.0

    def for_prefill(self, expected: float, *, step: float) -> float:
        """The most seconds that may be paid in advance for prefill, with a margin for bad luck: in a window of few
        steps a stream may lose although the predictions are good.
        """
        if self.is_unlimited:
            return math.inf
        window = self._window(step)
        promise = self._promise(window, expected) - self._config.luck * math.sqrt(window * step)
        return max(0.0, self._left(window) - self._advanced + max(0.0, promise)) if self._is_open else 0.0

    @property
    def is_trial(self) -> bool:
        """Whether a trial is running, in which more may be lost to measure a draft."""
        return self._clock() < self._trial_until

    def begin_trial(self) -> None:
        """Begin a trial for the length of a window, if the total balance is full."""
        if not self.is_unlimited and self._balance >= self._limit:
            self._trial_until = self._clock() + self._config.window

    def for_probe(self, *, step: float) -> float:
        """The most seconds that a step with no expected gain may lose."""
        return max(0.0, min(self.for_step(0.0, step=step) - self._advanced, self._balance))

    def refuse(self) -> None:
        """Close the budget if it is overdrawn when a plan that pays exceeds it: the loss must be made up first."""
        if self._balance < 0 and not self.is_trial:
            self._is_open = False

    def observe(self, gain: float, *, advance: float = 0.0) -> None:
        """Count a step's gain in seconds, negative for a loss, and the part of a loss that was paid in advance."""
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
        """The time in which losses must stay small: a window, or the life of a stream if that is shorter."""
        now = self._clock()
        self._forget(now)
        lives = (now - since + sequence.num_remaining * step for sequence, since in self._streams.items())
        return min(self._config.window, *lives)

    def _left(self, window: float) -> float:
        loss = self._config.trial_loss if self.is_trial else self._config.window_loss
        return window * loss + self._won + self._advanced

    def _promise(self, window: float, expected: float) -> float:
        """The trusted share of the gain expected in the rest of the oldest stream's first window."""
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
