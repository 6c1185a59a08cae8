"""Admission: how much work of one kind may be here at once, and when there will be room for more."""

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

_MEMORY_SECONDS = 10.0  # for which what was given back counts towards the rate
_FIRST_RETRY = 1.0  # seconds, while nothing has been given back
_LAST_RETRY = 60.0
_TOO_LATE = "DEADLINE_TOO_NEAR"
_OF_FREE = 2  # times what is free, the most that a caller beside others may have
_DOUBT = 2.0  # by which work may go faster than of late, when there was less of it at once


class Work(enum.Enum):
    """The kinds that are counted: what they are called, and the reason that whoever is refused is told."""

    STREAMS = ("requests", "TOO_MANY_REQUESTS")
    PROMPT_TOKENS = ("tokens of prompts", "TOO_MANY_PROMPT_TOKENS")
    REQUEST_BYTES = ("bytes of requests", "TOO_MANY_BYTES")
    TEXT_CALLS = ("calls", "TOO_MANY_CALLS")

    @property
    def plural(self) -> str:
        return self.value[0]

    @property
    def reason(self) -> str:
        return self.value[1]

    def own_limit(self, caller: Caller) -> int | None:
        """What a caller may have by its token, where that says so."""
        limits = {Work.STREAMS: caller.limits.max_streams, Work.PROMPT_TOKENS: caller.limits.max_waiting_tokens}
        return limits.get(self)


class Place:
    """What is held of an admission, until it is given back or the context ends."""

    def __init__(self, admission: "Admission", amount: int, caller: str) -> None:
        self._admission, self._amount, self._caller = admission, amount, caller

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Let others have it; nothing where it was given back before."""
        self.keep(0)

    def keep(self, most: int) -> None:
        """Let others have what is beyond so much."""
        if (amount := self._amount - most) > 0:
            self._admission._give_back(amount, self._caller)
            self._amount = most


class Admission:
    """Counts what is here, refuses what is beyond its limits, in all or of one caller, and knows when nothing is here.

    The last places are for those who have few: beside others, no caller gets more than twice what is left. Those who
    are refused are told when to come back: one after the other, as fast as work of this kind has ended of late. It is
    all for one event loop. A prompt may be larger than a limit, where none that counts towards it waits.
    """

    def __init__(
        self, work: Work, capacity: int, each: int | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """No caller gets more than `each`, by default all; `clock` is in seconds."""
        self.of_caller: Counter[str] = Counter()
        """What each caller has here."""
        self.each = 0
        """The most that one caller may have."""
        self._work = work
        self.resize(capacity, capacity if each is None else each)
        self._total = 0
        self._clock = clock
        self._rated_at = clock()
        self._busy, self._ended = 0.0, 0.0  # seconds that count, and what ended in them, less as time passes
        self._lines: dict[str | None, float] = {}  # when the last one who was refused comes back, by whose limit it was
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def total(self) -> int:
        """What is here."""
        return self._total

    @property
    def rate(self) -> float:
        """What has ended in a second of late; 0 if nothing has.

        Time counts in which half of what may be was here, for prompts in which anything was: few requests end slowly.
        """
        self._count_time()
        return self._ended / self._busy if self._busy else 0.0

    def resize(self, capacity: int, each: int) -> None:
        """Let in more or less from now on; what is here stays."""
        self._capacity, self.each = capacity, each
        self._least_rated = 0 if self._work is Work.PROMPT_TOKENS else capacity // 2

    def admit(self, amount: int, caller: Caller, *, deadline: float | None = None) -> Place:
        """Let so much more in; raises OverloadedError as `check` does."""
        self.check(amount, caller, deadline=deadline)
        self._count_time()
        self._total += amount
        if amount:
            self.of_caller[caller.name] += amount
            self._is_idle.clear()
        return Place(self, amount, caller.name)

    def most(self, caller: Caller) -> int:
        """What a caller may have here at best."""
        return min(self._work.own_limit(caller) or self.each, self._capacity)

    def check(self, amount: int, caller: Caller, *, deadline: float | None = None) -> None:
        """Raise OverloadedError where so much more is too much, or would begin after the deadline by the clock."""
        if (excess := self._excess(self._total, amount, self._capacity)) > 0:
            self._refuse(amount, excess, None, f"{self._total} {self._work.plural}")
        held = self.of_caller.get(caller.name, 0)
        most = self.most(caller)
        if held and len(self.of_caller) > 1:
            most = min(most, _OF_FREE * (self._capacity - self._total))
        if (excess := self._excess(held, amount, most)) > 0:
            self._refuse(amount, excess, caller.name, f"{held} {self._work.plural} of this caller")
        if deadline is not None and self._total:
            self._check_time(self.expected_wait(amount, caller.name), deadline - self._clock())

    def expected_wait(self, amount: int, caller: str) -> float:
        """Seconds until work that is here will have ended, as far as it goes before so much more of a caller's, where
        all callers get the same; 0 where nothing is known.
        """
        own = self.of_caller.get(caller, 0)
        ahead = min(self._total, (own + amount) * len(self.of_caller))
        return ahead / rate if ahead and (rate := self.rate) else 0.0

    async def wait_until_idle(self, seconds: float) -> bool:
        """Wait that long at most for all that is here to end, and say whether it did."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_idle.wait(), seconds)
        return self._is_idle.is_set()

    def _excess(self, held: int, amount: int, most: int) -> int:
        is_alone = self._work is Work.PROMPT_TOKENS and not held
        return 0 if is_alone else held + amount - most

    def _check_time(self, wait: float, seconds_left: float) -> None:
        """Raise OverloadedError where there is less time than the wait, even if all went faster than of late."""
        if wait > _DOUBT * seconds_left:
            problem = f"{self._total} {self._work.plural} wait, so that this call would begin in {wait:.1f} s"
            problem += f", after its deadline in {max(seconds_left, 0.0):.1f} s"
            raise OverloadedError(problem, reason=_TOO_LATE, of_caller=False, retry_seconds=min(wait, _LAST_RETRY))

    def _refuse(self, amount: int, excess: int, line: str | None, held: str) -> None:
        problem = f"{held} are being served or wait, as many as may"
        seconds = self._queue(amount, excess, line)
        raise OverloadedError(problem, reason=self._work.reason, of_caller=line is not None, retry_seconds=seconds)

    def _queue(self, amount: int, excess: int, line: str | None) -> float:
        """Seconds after which one who is refused is to come back, behind those who were refused before."""
        now, rate = self._clock(), self.rate
        if not rate:
            return _FIRST_RETRY * random.uniform(0.5, 1.5)
        end = max(self._lines.get(line, now) + amount / rate, now + excess / rate)
        if line is None or line in self.of_caller:
            self._lines[line] = min(end, now + _LAST_RETRY)
        return end - now if end - now <= _LAST_RETRY else _LAST_RETRY * random.uniform(0.5, 1)

    def _give_back(self, amount: int, caller: str) -> None:
        self._count_time()
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
