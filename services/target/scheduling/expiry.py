"""Expiry: when a generation's time is over, and what it ends by then."""

import math
from typing import NamedTuple

from services.engine.events import FinishReason
from services.engine.request import Request


class Expiry(NamedTuple):
    """The earlier of the call's deadline and the request's time limit."""

    at: float  # seconds on the monotonic clock; infinite where there is neither
    reason: FinishReason

    @classmethod
    def of(cls, request: Request, *, arrived: float) -> "Expiry":
        """The expiry of a request that arrived then."""
        deadline = math.inf if request.deadline is None else request.deadline
        limit = math.inf if request.stops.time_limit is None else arrived + request.stops.time_limit
        return cls(limit, FinishReason.TIME_LIMIT) if limit < deadline else cls(deadline, FinishReason.DEADLINE)
