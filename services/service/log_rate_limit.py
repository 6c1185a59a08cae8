"""LogRateLimit: limits how often an event that clients can cause is logged."""

import time

_SECONDS = 60.0


class LogRateLimit:
    """Allows one line a minute; the next one says how many were left out."""

    def __init__(self) -> None:
        self._logged_at = float("-inf")
        self._num_left_out = 0

    def may_log(self) -> bool:
        """Return whether a line may be logged now."""
        now = time.monotonic()
        if now < self._logged_at + _SECONDS:
            self._num_left_out += 1
            return False
        self._logged_at = now
        return True

    def left_out(self) -> str:
        """Return the suffix of a logged line: how many lines were left out before it; empty if none were."""
        count, self._num_left_out = self._num_left_out, 0
        return f" ({count} more such lines were left out)" if count else ""
