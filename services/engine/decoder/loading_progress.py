"""LoadingProgress: how much of a model's weights is loaded, for the log and for health checks, with cancellation."""

import logging
import time
from concurrent.futures import CancelledError

logger = logging.getLogger(__name__)

_LOGGED_SECONDS = 1.0  # the least time between two lines


class LoadingProgress:
    """Written by the thread that loads; any thread may read or cancel it."""

    def __init__(self, *, is_logged: bool = True) -> None:
        self._share, self._is_cancelled, self._is_logged = 0.0, False, is_logged
        self._logged_tenths, self._logged_at = 0, time.monotonic()

    def advance(self, share: float) -> None:
        """Set the share of the weights that is loaded, 0 to 1; raises CancelledError after `cancel`."""
        if self._is_cancelled:
            raise CancelledError
        self._share, tenths, now = share, int(10 * share), time.monotonic()
        is_due = tenths > self._logged_tenths and now - self._logged_at >= _LOGGED_SECONDS
        if is_due and self._is_logged:
            self._logged_tenths, self._logged_at = tenths, now
            logger.info("%s", str(self))

    @property
    def share(self) -> float:
        """The share of the weights that is loaded, 0 to 1."""
        return self._share

    def cancel(self) -> None:
        """Make the next `advance` raise CancelledError, which ends the loading."""
        self._is_cancelled = True

    def __str__(self) -> str:
        """Return the progress as a sentence for messages."""
        return f"{self._share:.0%} of the weights are loaded"
