"""Availability: whether requests are served, and why not."""

from collections.abc import Awaitable, Callable


class Availability:
    """Collects the reasons not to serve requests; requests are served while there is none.

    Several reasons may hold at once, and each is cleared separately: a service that is drained and whose engine is late
    is still drained when the engine has caught up.
    """

    def __init__(self, notify: Callable[[str], Awaitable[None]]) -> None:
        """`notify` is called on every change with the latest reason not to serve, or with "" if there is none."""
        self._notify = notify
        self._reasons: dict[str, None] = {}  # as reported to callers, the latest last

    @property
    def reason(self) -> str:
        """Why requests are refused; empty if they are not."""
        return next(reversed(self._reasons), "")

    def has(self, reason: str) -> bool:
        """Return whether this is one of the current reasons."""
        return reason in self._reasons

    async def obstruct(self, reason: str) -> None:
        """Refuse requests from now on, for this reason."""
        self._reasons[reason] = None
        await self._notify(self.reason)

    async def clear(self, reason: str) -> None:
        """Remove this reason, if it is one of the current ones."""
        self._reasons.pop(reason, None)
        await self._notify(self.reason)
