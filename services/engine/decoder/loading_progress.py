"""LoadingProgress: how much of a model's weights is loaded, for the log and for whoever asks meanwhile."""

import logging
import time

logger = logging.getLogger(__name__)

_LOGGED_SECONDS = 1.0  # between two lines at least


class LoadingProgress:
    """Written by the thread that loads, read by any."""

    def __init__(self) -> None:
        self._share = 0.0
        self._logged_tenths, self._logged_at = 0, time.monotonic()

    def advance(self, share: float) -> None:
        """Note that this share of all weights is loaded, 0 to 1."""
        self._share, tenths, now = share, int(10 * share), time.monotonic()
        if tenths > self._logged_tenths and now - self._logged_at >= _LOGGED_SECONDS:
            self._logged_tenths, self._logged_at = tenths, now
            logger.info("%s", str(self))

    def __str__(self) -> str:
        """As a message says it."""
        return f"{self._share:.0%} of the weights are loaded"
