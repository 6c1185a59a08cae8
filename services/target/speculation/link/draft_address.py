"""DraftAddress: the address of a draft, the history of its links, and the time of the next try."""

import logging
import random

import grpc
from grpc import aio

from services.service.log_rate_limit import LogRateLimit
from services.target.speculation.link.draft_reader import RunCount

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.1  # seconds, as all times here
_LONGEST_PAUSE = 2.0  # if the draft does not answer
_LONGEST_BAD_PAUSE = 30.0  # for a draft that cannot work with this target, breaks the protocol, or is useless
_SERVICE, _SERVICE_RUNS = 1.0, 16  # the least duration and the least number of useful runs of a useful link
_LONG_SERVICE = 60.0  # the least duration if the link ended badly
_LOADING = 30.0  # how long a draft is expected to come after the first try: it may be loading


class DraftAddress:
    """Each address has its own pauses between tries: a bad draft at one does not affect the others.

    Each pause is twice the one before, until a link was useful. So a draft that accepts links and drops them at once is
    tried no more often than one that does not answer.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.due = 0.0  # on the monotonic clock
        self._pause = _FIRST_PAUSE  # the latest, before jitter
        self._runs: RunCount | None = None  # of the current link
        self._linked_at = 0.0
        self._is_bad = False  # whether a link has ended badly, and none was useful since
        self._expected_until: float | None = None  # None before the first try
        self._level = logging.WARNING  # of the next complaint
        self._logged = (logging.NOTSET, "")  # the last one since the last link
        self._log_limit = LogRateLimit()

    def linked(self, runs: RunCount, now: float) -> None:
        """Begin a link after the draft's hello; `runs` counts its runs."""
        self._runs, self._linked_at, self._expected_until = runs, now, now
        self._logged = (logging.NOTSET, "")

    def lost(self, error: Exception, now: float) -> None:
        """End a link, or a failed try; sets `due`, before which there is no other try."""
        lasted = now - self._linked_at if self._runs else 0.0
        num_useful = self._runs.num_useful if self._runs else 0
        has_served = num_useful >= _SERVICE_RUNS
        ended_badly = not (_is_absence(error) or _is_refusal(error) or (has_served and _is_cut(error)))
        was_useful = has_served and lasted > (_LONG_SERVICE if ended_badly else _SERVICE)
        hung_up = self._runs is not None and not num_useful and lasted <= _SERVICE
        self._runs = None
        self._expected_until = now + _LOADING if self._expected_until is None else self._expected_until
        self._level = logging.INFO if _is_absence(error) and now < self._expected_until else logging.WARNING
        self._is_bad = (self._is_bad or ended_badly) and not was_useful
        longest = _LONGEST_BAD_PAUSE if self._is_bad or hung_up or _is_refusal(error) else _LONGEST_PAUSE
        self._pause = _FIRST_PAUSE if was_useful else min(2 * self._pause, longest)
        self.due = now + self._pause * random.uniform(0.5, 1.0)  # jitter, so that targets do not try at the same time

    def complain(self, text: str, *, exc_info: bool = False) -> None:
        """Log why the draft is away: once instead of at every try, and for a bad draft once a minute.

        Until it may have been loaded that is no warning.
        """
        complaint = (self._level, text)
        if complaint != self._logged and (not self._is_bad or self._log_limit.may_log()):
            self._logged = complaint  # only now: a text that the limit held back must still be logged
            logger.log(self._level, "%s%s", text, self._log_limit.left_out(), exc_info=exc_info)


def _is_absence(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or _has_code(error, grpc.StatusCode.UNAVAILABLE)


def _is_refusal(error: Exception) -> bool:
    return _has_code(error, grpc.StatusCode.FAILED_PRECONDITION)


def _is_cut(error: Exception) -> bool:
    """Whether this may be the error of a link whose draft was killed, for which gRPC has several codes."""
    return isinstance(error, aio.AioRpcError) and error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED


def _has_code(error: Exception, code: grpc.StatusCode) -> bool:
    return isinstance(error, aio.AioRpcError) and error.code() is code
