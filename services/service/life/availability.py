"""Availability: whether requests are served, and if not, why."""

from collections.abc import Awaitable, Callable


class Availability:
    """Collects what stands in the way of requests; they are served while nothing does.

    Several things may at once, and each goes by itself: a service that is drained and whose engine is late is still
    drained when the engine has caught up.
    """

    def __init__(self, tell: Callable[[str], Awaitable[None]]) -> None:
        """`tell` is called on every change with the latest reason not to serve, empty where there is none."""
        self._tell = tell
        self._reasons: dict[str, None] = {}  # as callers are told them, the latest last

    @property
    def reason(self) -> str:
        """Why requests are refused; empty if they are not."""
        return next(reversed(self._reasons), "")

    def has(self, reason: str) -> bool:
        """Whether this stands in the way."""
        return reason in self._reasons

    async def obstruct(self, reason: str) -> None:
        """Serve nothing from now on, because of this."""
        self._reasons[reason] = None
        await self._tell(self.reason)

    async def clear(self, reason: str) -> None:
        """This no longer stands in the way; nothing if it did not."""
        self._reasons.pop(reason, None)
        await self._tell(self.reason)
