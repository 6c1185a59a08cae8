"""LoadingProgress: how much of a model's weights is loaded, for the log and for whoever asks meanwhile."""

import logging
import time
from concurrent.futures import CancelledError

logger = logging.getLogger(__name__)

_LOGGED_SECONDS = 1.0  # between two lines at least


class LoadingProgress:
    """Written by the thread that loads, read by any, and cancelled by whoever knows that loading is in vain."""

    def __init__(self) -> None:
        self._share, self._is_cancelled = 0.0, False
        self._logged_tenths, self._logged_at = 0, time.monotonic()

    def advance(self, share: float) -> None:
        """Note that this share of all weights is loaded, 0 to 1; raises CancelledError."""
        if self._is_cancelled:
            raise CancelledError
        self._share, tenths, now = share, int(10 * share), time.monotonic()
        if tenths > self._logged_tenths and now - self._logged_at >= _LOGGED_SECONDS:
            self._logged_tenths, self._logged_at = tenths, now
            logger.info("%s", str(self))

    @property
    def share(self) -> float:
        """How much of the weights is loaded, 0 to 1."""
        return self._share

    def cancel(self) -> None:
        """Have loading end at the next `advance`."""
        self._is_cancelled = True

    def __str__(self) -> str:
        """As a message says it."""
        return f"{self._share:.0%} of the weights are loaded"
