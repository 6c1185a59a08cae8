"""Admission: bounds the work of one kind in the service at once, and tells rejected clients when to retry."""

import asyncio
import contextlib
import enum
import math
import random
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Self

from services.service.access.caller import Caller
from services.service.errors import OverloadedError

_MEMORY_SECONDS = 10.0  # time constant of the rate's decay
_FIRST_RETRY = 1.0  # seconds
_LAST_RETRY = 60.0
_TOO_LATE = "DEADLINE_TOO_NEAR"
_OF_FREE = 2  # a caller beside others may have at most this multiple of the free capacity
_DOUBT = 2.0  # work may go this many times faster than the recent rate, which was measured at less load


class Work(enum.Enum):
    """The kinds of work that are counted: their name, and the reason that a rejected caller receives."""

    STREAMS = ("requests", "TOO_MANY_REQUESTS")
    PROMPT_TOKENS = ("tokens of prompts", "TOO_MANY_PROMPT_TOKENS")
    REQUEST_BYTES = ("bytes of requests", "TOO_MANY_BYTES")
    TEXT_CALLS = ("calls", "TOO_MANY_CALLS")
    SUBSCRIBERS = ("subscribers", "TOO_MANY_SUBSCRIBERS")

    @property
    def plural(self) -> str:
        return self.value[0]

    @property
    def reason(self) -> str:
        return self.value[1]

    def own_limit(self, caller: Caller) -> int | None:
        """Return the limit that a caller's token sets, or None if it sets none."""
        limits = {Work.STREAMS: caller.limits.max_streams, Work.PROMPT_TOKENS: caller.limits.max_waiting_tokens}
        return limits.get(self)


class Reservation:
    """An amount that is held of an admission until it is given back or the context ends."""

    def __init__(self, admission: "Admission", amount: int, caller: str) -> None:
        self._admission, self._amount, self._caller = admission, amount, caller

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Release the whole amount; does nothing if it was released before."""
        self.keep(0)

    def keep(self, most: int) -> None:
        """Release all but this amount."""
        if (amount := self._amount - most) > 0:
            self._admission._give_back(amount, self._caller)
            self._amount = most


class Admission:
    """Counts the admitted work and rejects requests beyond its limits, the total one or a caller's own: backpressure.

    The last of the capacity is kept for callers with little work: beside others, no caller gets more than twice what
    is free. Each rejected call gets a time to retry; the times are spaced at the rate at which work of this kind has
    ended recently, and grow as long as none ends. All methods run on one event loop. A prompt may exceed a limit if no
    other counts towards it.
    """

    def __init__(
        self, work: Work, capacity: int, each: int | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """No caller gets more than `each`, by default the whole capacity; `clock` is in seconds."""
        self.of_caller: Counter[str] = Counter()
        """The amount that each caller holds."""
        self.each = 0
        """The limit of one caller."""
        self._work = work
        self.resize(capacity, capacity if each is None else each)
        self._total = 0
        self._clock = clock
        self._rated_at = self._quiet_since = clock()  # since then no work has ended
        self._busy, self._ended = 0.0, 0.0  # seconds that count, and the work that ended in them, both decaying
        self._lines: dict[str | None, float] = {}  # the last retry time given, by caller; None: by the total limit
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def total(self) -> int:
        """The amount that is held."""
        return self._total

    @property
    def rate(self) -> float:
        """The amount that ended per second recently; 0 if none has.

        Only time at more than half of the capacity counts, or, for prompts, with any work: few requests end slowly.
        """
        self._count_time()
        return self._ended / self._busy if self._busy else 0.0

    def resize(self, capacity: int, each: int) -> None:
        """Change the limits from now on; admitted work stays."""
        self._capacity, self.each = capacity, each
        self._least_rated = 0 if self._work is Work.PROMPT_TOKENS else capacity // 2

    def admit(self, amount: int, caller: Caller, *, deadline: float | None = None) -> Reservation:
        """Admit this amount; raises OverloadedError as `check` does."""
        self.check(amount, caller, deadline=deadline)
        self._count_time()
        if not self._total:
            self._quiet_since = self._clock()
        self._total += amount
        if amount:
            self.of_caller[caller.name] += amount
            self._is_idle.clear()
        return Reservation(self, amount, caller.name)

    def limit_for(self, caller: Caller) -> int:
        """Return the most that a caller may hold."""
        return min(self._work.own_limit(caller) or self.each, self._capacity)

    def check(self, amount: int, caller: Caller, *, deadline: float | None = None) -> None:
        """Raise OverloadedError if this amount exceeds a limit, or would begin after the deadline, a clock time."""
        if (excess := self._excess(self._total, amount, self._capacity)) > 0:
            self._refuse(amount, excess, None, f"{self._total} {self._work.plural}")
        held = self.of_caller.get(caller.name, 0)
        most = self.limit_for(caller)
        if held and len(self.of_caller) > 1:
            most = min(most, _OF_FREE * (self._capacity - self._total))
        if (excess := self._excess(held, amount, most)) > 0:
            self._refuse(amount, excess, caller.name, f"{held} {self._work.plural} of this caller")
        if deadline is not None and self._total:
            self._check_time(self.expected_wait(amount, caller.name), deadline - self._clock())

    def expected_wait(self, amount: int, caller: str) -> float:
        """Return the seconds until the work ahead of this amount of a caller's has ended, if all callers get equal
        turns; 0 while no rate is known.
        """
        own = self.of_caller.get(caller, 0)
        ahead = min(self._total, (own + amount) * len(self.of_caller))
        return ahead / rate if ahead and (rate := self.rate) else 0.0

    async def wait_until_idle(self, seconds: float) -> bool:
        """Wait at most this long for all admitted work to end, and return whether it did."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_idle.wait(), seconds)
        return self._is_idle.is_set()

    def _excess(self, held: int, amount: int, most: int) -> int:
        is_alone = self._work is Work.PROMPT_TOKENS and not held
        return 0 if is_alone else held + amount - most

    def _check_time(self, wait: float, seconds_left: float) -> None:
        """Raise OverloadedError if less time is left than the wait, even at twice the recent rate."""
        if wait > _DOUBT * seconds_left:
            problem = f"{self._total} {self._work.plural} are queued, so this call would begin in {wait:.1f} s"
            problem += f", after its deadline in {max(seconds_left, 0.0):.1f} s"
            raise OverloadedError(problem, reason=_TOO_LATE, of_caller=False, retry_seconds=min(wait, _LAST_RETRY))

    def _refuse(self, amount: int, excess: int, line: str | None, held: str) -> None:
        problem = f"{held} are being served or queued, which is the limit"
        seconds = self._queue(amount, excess, line)
        raise OverloadedError(problem, reason=self._work.reason, of_caller=line is not None, retry_seconds=seconds)

    def _queue(self, amount: int, excess: int, line: str | None) -> float:
        """Return the seconds after which a rejected call is to be retried, after those that were rejected before."""
        now, rate = self._clock(), self.rate
        if not rate:
            return min(max(_FIRST_RETRY, now - self._quiet_since) * random.uniform(0.5, 1.5), _LAST_RETRY)
        end = max(self._lines.get(line, now) + amount / rate, now + excess / rate)
        if line is None or line in self.of_caller:
            self._lines[line] = min(end, now + _LAST_RETRY)
        return end - now if end - now <= _LAST_RETRY else _LAST_RETRY * random.uniform(0.5, 1)

    def _give_back(self, amount: int, caller: str) -> None:
        self._count_time()
        self._quiet_since = self._clock()
        if self._total > self._least_rated:
            self._ended += amount
        self._total -= amount
        self.of_caller[caller] -= amount
        if not self.of_caller[caller]:
            del self.of_caller[caller]
            self._lines.pop(caller, None)
        if not self._total:
            self._is_idle.set()

    def _count_time(self) -> None:
        now = self._clock()
        if self._total > self._least_rated:
            kept = math.exp((self._rated_at - now) / _MEMORY_SECONDS)
            self._ended *= kept
            self._busy = self._busy * kept + _MEMORY_SECONDS * (1 - kept)
        self._rated_at = now
