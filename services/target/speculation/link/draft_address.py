"""DraftAddress: where a draft is looked for, how its links have fared, and when it is tried again."""

import logging
import random

import grpc
from grpc import aio

from services.service.log_rate_limit import LogRateLimit
from services.target.speculation.link.draft_reader import RunCount

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.1  # seconds, as all times here
_LONGEST_PAUSE = 2.0  # where nobody is there
_LONGEST_BAD_PAUSE = 30.0  # where a draft cannot work with this target, does not keep to the protocol, or is of no use
_SERVICE, _SERVICE_RUNS = 1.0, 16  # what a link lasts and brings at least that was of use
_LONG_SERVICE = 60.0  # for one that ended badly nevertheless


class DraftAddress:
    """The pauses of each address grow by themselves: a bad draft at one does not keep the target from another.

    Each is twice the one before it, until a link has been of use. So a draft that takes links and drops them at once is
    tried no more often than one that is not there.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.due = 0.0  # on the monotonic clock
        self._pause = _FIRST_PAUSE  # the latest, before chance has shortened it
        self._runs: RunCount | None = None  # of the link that there is
        self._linked_at = 0.0
        self._is_bad = False  # and has not been of use since
        self._complaint = ""  # the latest since there was a link
        self._log_limit = LogRateLimit()

    def linked(self, runs: RunCount, now: float) -> None:
        """The draft has said hello; `runs` counts what comes."""
        self._runs, self._linked_at, self._complaint = runs, now, ""

    def lost(self, error: Exception, now: float) -> None:
        """The link has ended, or there was none: not to be tried before `due`."""
        lasted = now - self._linked_at if self._runs else 0.0
        num_useful = self._runs.num_useful if self._runs else 0
        has_served = num_useful >= _SERVICE_RUNS
        ended_badly = not (_is_absence(error) or _is_refusal(error) or (has_served and _is_cut(error)))
        was_of_use = has_served and lasted > (_LONG_SERVICE if ended_badly else _SERVICE)
        hung_up = self._runs is not None and not num_useful and lasted <= _SERVICE
        self._runs = None
        self._is_bad = (self._is_bad or ended_badly) and not was_of_use
        longest = _LONGEST_BAD_PAUSE if self._is_bad or hung_up or _is_refusal(error) else _LONGEST_PAUSE
        self._pause = _FIRST_PAUSE if was_of_use else min(2 * self._pause, longest)
        self.due = now + self._pause * random.uniform(0.5, 1.0)  # so that targets do not meet

    def complain(self, text: str, *, exc_info: bool = False) -> None:
        """Log why it is not there: once and not at every try, and of a draft that is bad once a minute."""
        if text != self._complaint and (not self._is_bad or self._log_limit.may_log()):
            self._complaint = text  # only now: what the limit has held back is still news
            logger.warning("%s%s", text, self._log_limit.left_out(), exc_info=exc_info)


def _is_absence(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or _has_code(error, grpc.StatusCode.UNAVAILABLE)


def _is_refusal(error: Exception) -> bool:
    return _has_code(error, grpc.StatusCode.FAILED_PRECONDITION)


def _is_cut(error: Exception) -> bool:
    """Whether this may be what becomes of a link whose draft is killed: gRPC has several words for that."""
    return isinstance(error, aio.AioRpcError) and error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED


def _has_code(error: Exception, code: grpc.StatusCode) -> bool:
    return isinstance(error, aio.AioRpcError) and error.code() is code
