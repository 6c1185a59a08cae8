"""LogRateLimit: how often something that others bring about may be logged."""

import time

_SECONDS = 60.0


class LogRateLimit:
    """One line a minute; the next one tells how many were left out."""

    def __init__(self) -> None:
        self._logged_at = float("-inf")
        self._num_left_out = 0

    def may_log(self) -> bool:
        """Whether a line may be logged now."""
        now = time.monotonic()
        if now < self._logged_at + _SECONDS:
            self._num_left_out += 1
            return False
        self._logged_at = now
        return True

    def left_out(self) -> str:
        """What to add to the line that is logged: how many like it were not; empty for none."""
        count, self._num_left_out = self._num_left_out, 0
        return f" ({count} more such lines were left out)" if count else ""
