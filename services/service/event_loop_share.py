"""EventLoopShare: how much of an event loop's time one link may take."""

import time

_PART = 0.5  # of the time
_BURST = 0.02  # seconds that may be taken at once
_READING = 0.00005  # seconds that it takes to be handed one message, whatever is in it


class EventLoopShare:
    """Counts the processor time that a link's messages took, so that a loaded machine costs no link its share.

    A reader that has had its share rests, and what is not read the other side cannot send: so no flood, of messages
    however small, keeps the loop from its other callers.
    """

    def __init__(self) -> None:
        self._debt = 0.0
        self._counted_at = time.monotonic()

    def rest_after(self, seconds: float) -> float:
        """How many seconds to rest after a message that took so many to handle."""
        now = time.monotonic()
        self._debt = max(0.0, self._debt + seconds + _READING - _PART * (now - self._counted_at))
        self._counted_at = now
        return max(0.0, self._debt - _BURST) / _PART
