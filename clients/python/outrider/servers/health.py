"""Health: whether a server is still there whose connection broke under a call."""

from collections.abc import Callable
from typing import Any

import grpc

from outrider.errors import OutriderError, ServerLost, Unavailable

CHECK = "/grpc.health.v1.Health/Check"
_SECONDS = 2.0
_MOST_CHECKS = 3  # the first ones may still go out on the connection that broke
# Not every server knows of health, but each that lives answers.
_SILENCE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)

TimeLeft = Callable[[], float | None]
Watch = Callable[[Any], None]


def _unwatched(_: Any) -> None:  # noqa: ANN401 - a call of either API
    return


def examined(
    error: OutriderError,
    check: Any,  # noqa: ANN401 - a callable with a `future`
    time_left: TimeLeft,
    watch: Watch = _unwatched,
) -> OutriderError:
    """The error of a call that had not started, or ServerLost if the server is gone since; `check` asks the server.

    It stops asking when `time_left` raises; `watch` receives each call, so that it can be cancelled.
    """
    if not _is_break(error):
        return error
    for _ in range(_MOST_CHECKS):
        call = check.future(b"", timeout=_bounded(time_left()))
        watch(call)
        if call.code() not in _SILENCE:
            return error
    time_left()
    return _lost(error)


async def examined_async(
    error: OutriderError, check: Callable[..., Any], time_left: TimeLeft, watch: Watch = _unwatched
) -> OutriderError:
    """The same for asyncio."""
    if not _is_break(error):
        return error
    for _ in range(_MOST_CHECKS):
        call = check(b"", timeout=_bounded(time_left()))
        watch(call)
        try:
            if await call.code() not in _SILENCE:
                return error
        finally:
            call.cancel()
    time_left()
    return _lost(error)


def _bounded(left: float | None) -> float:
    return _SECONDS if left is None else min(left, _SECONDS)


def _is_break(error: OutriderError) -> bool:
    return isinstance(error, Unavailable) and error.broke


def _lost(error: OutriderError) -> ServerLost:
    return ServerLost(f"{error}: the server went while it was at work on the call, which may be what ended it")
