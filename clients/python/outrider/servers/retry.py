"""Retries: which address to try next, when, and when to give up."""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from outrider.errors import (
    Cancelled,
    DeadlineExceeded,
    FingerprintMismatch,
    OutriderError,
    ResourceExhausted,
    ServerLost,
    Unavailable,
)

_FIRST_BACKOFF = 0.1
_FIRST_CONTACT = 3.0  # seconds in which a first server must be reached; the addresses may be wrong
_SHORTEST = 0.01  # seconds that are worth a try: a server's clock may end a call as much before ours
_LONGEST_PAUSE = 300.0  # seconds that a server can make a client wait
_MOST_BROKEN_RESUMING = 3  # connections that may break in a row before a further token arrives


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How persistent a client is.

    `max_retries` is how many times in a row every address is tried again without a token arriving; 0 turns retries
    off, and resuming with them. Before each such round the client waits: 0.1 seconds, doubled each time up to
    `max_backoff`, less a random part of up to a half. `max_lost_retries` is how many times a call is tried again whose
    connection broke before anything had arrived. A call that could connect to no server for `connect_timeout` seconds
    is given up earlier, after each address was tried; None is 3 seconds until any call of the client has reached a
    server, and then no limit. Raises ValueError for negative values.
    """

    max_retries: int
    max_backoff: float
    max_lost_retries: int = 1
    connect_timeout: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_retries", "max_backoff", "max_lost_retries", "connect_timeout"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must be at least 0, not {value}")

    def backoff(self, num_rounds: int) -> float:
        """Seconds to wait after so many rounds in vain."""
        longest = min(self.max_backoff, _FIRST_BACKOFF * 2.0 ** min(num_rounds - 1, 64))
        return longest * random.uniform(0.5, 1)


@dataclass(slots=True)
class Contact:
    """Whether any call of a client has reached a server; all calls share it."""

    is_made: bool = False


class Attempts:
    """The attempts at one call, over all addresses, under one deadline."""

    def __init__(
        self,
        policy: RetryPolicy,
        num_addresses: int,
        *,
        first: int = 0,
        timeout: float | None = None,
        contact: Contact | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = first
        """Index of the address to use now."""
        self._policy = policy
        self._contact = contact or Contact()
        self._num_addresses = num_addresses
        self._refused: set[int] = set()
        self._failures = 0
        self._num_broken = 0
        self._last: OutriderError | None = None
        self._clock = clock
        self._unreached_since = clock()
        self._deadline = None if timeout is None else self._unreached_since + timeout

    def time_left(self) -> float | None:
        """Seconds until the deadline, or None without one; raises DeadlineExceeded when there are hardly any left."""
        if self._deadline is None:
            return None
        left = self._deadline - self._clock()
        if left < _SHORTEST:
            raise self._out_of_time()
        return left

    def answered(self) -> None:
        """Note that a server has been reached: if it goes, it may come back."""
        self._contact.is_made = True

    def progressed(self) -> None:
        """Count retries anew."""
        self._failures = self._num_broken = 0

    def failed(self, error: OutriderError, *, resuming: bool = False, seeks_fingerprint: bool = False) -> float:
        """Move to the next address and return the seconds to wait before using it; raises when it is time to stop.

        A server that is full is asked again when it says, if it does, after the others. One that does not say is passed
        over only when there is something to resume, one of another fingerprint also if a fingerprint is sought. A call
        that one server after another breaks down at is not carried on to all of them.
        """
        if not (_is_unreached(error) or isinstance(error, DeadlineExceeded)):  # which is also said while connecting
            self.answered()
        if isinstance(error, Unavailable) and error.broke:
            self._check_broken(error, resuming=resuming)
        if (resuming or seeks_fingerprint) and isinstance(error, FingerprintMismatch):
            self._refused.add(self.address)
        elif isinstance(error, ResourceExhausted):
            if not resuming and error.retry_after is None:
                raise error
        elif isinstance(error, Cancelled):
            self.time_left()  # which a server's clock may have ended
        elif not isinstance(error, Unavailable):
            raise error
        self._last = error
        open_addresses = self._num_addresses - len(self._refused)
        self._failures += 1
        if open_addresses == 0 or self._failures > self._policy.max_retries * self._num_addresses:
            raise error
        self._advance()
        pause = self._pause(open_addresses)
        self._check_unreached(error, pause, is_round_over=self._failures % open_addresses == 0, resuming=resuming)
        if pause and isinstance(error, ResourceExhausted):
            pause = max(pause, min(error.retry_after or 0.0, _LONGEST_PAUSE))
        left = self.time_left()
        if left is not None and pause >= left:
            if isinstance(error, ResourceExhausted):
                raise error
            raise self._out_of_time() from error
        return pause

    def _out_of_time(self) -> DeadlineExceeded:
        why = "" if self._last is None else f": {self._last}"
        return DeadlineExceeded(f"the time given to the call ran out{why}")

    def _check_unreached(self, error: OutriderError, pause: float, *, is_round_over: bool, resuming: bool) -> None:
        if resuming or not _is_unreached(error):
            self._unreached_since = self._clock()
        elif is_round_over and self._clock() + pause >= self._unreached_since + self._connect_timeout():
            raise error

    def _connect_timeout(self) -> float:
        if self._policy.connect_timeout is not None:
            return self._policy.connect_timeout
        return math.inf if self._contact.is_made else _FIRST_CONTACT

    def _check_broken(self, error: Unavailable, *, resuming: bool) -> None:
        self._num_broken += 1
        if resuming and self._num_broken > _MOST_BROKEN_RESUMING:
            raise error
        if not resuming and self._num_broken > self._policy.max_lost_retries:
            message = f"{error}: the connection broke before anything had arrived, which the call may have caused"
            raise ServerLost(message) from error

    def _advance(self) -> None:
        self.address = (self.address + 1) % self._num_addresses
        while self.address in self._refused:
            self.address = (self.address + 1) % self._num_addresses

    def _pause(self, open_addresses: int) -> float:
        rounds, rest = divmod(self._failures, open_addresses)
        return 0.0 if rest else self._policy.backoff(rounds)


def _is_unreached(error: OutriderError) -> bool:
    return isinstance(error, Unavailable) and error.unreached
