"""EventLoopShare: limits the part of an event loop's time that one link may take."""

import time

_PART = 0.5  # of the time
_BURST = 0.02  # seconds that may be taken at once
_READING = 0.00005  # seconds that gRPC takes to deliver one message of any size


class EventLoopShare:
    """Counts the processor time of a link's messages: processor time, so that a busy machine costs no link its share.

    The reader of a link that has used its share rests; meanwhile flow control stops the sender (backpressure). So no
    flood of messages, however small, keeps the loop from its other callers.
    """

    def __init__(self) -> None:
        self._debt = 0.0
        self._counted_at = time.monotonic()

    def rest_after(self, seconds: float) -> float:
        """Return how many seconds to rest after a message that took this many seconds to handle."""
        now = time.monotonic()
        self._debt = max(0.0, self._debt + seconds + _READING - _PART * (now - self._counted_at))
        self._counted_at = now
        return max(0.0, self._debt - _BURST) / _PART
