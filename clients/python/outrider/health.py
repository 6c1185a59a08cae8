"""Health: whether a server is still there whose connection broke under a call."""

from collections.abc import Callable
from typing import Any

import grpc

from outrider.errors import OutriderError, ServerLost, Unavailable

CHECK = "/grpc.health.v1.Health/Check"
_SECONDS = 2.0
_MOST_CHECKS = 2  # the first may still go out on the connection that broke
# Not every server knows of health, but each that lives answers.
_SILENCE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


def examined(error: OutriderError, check: Callable[..., Any]) -> OutriderError:
    """The error of a call that had not started, or ServerLost where the server is gone since; `check` asks it."""
    if not _is_break(error):
        return error
    for _ in range(_MOST_CHECKS):
        try:
            check(b"", timeout=_SECONDS)
        except grpc.RpcError as failure:
            if failure.code() in _SILENCE:
                continue
        return error
    return _lost(error)


async def examined_async(error: OutriderError, check: Callable[..., Any]) -> OutriderError:
    """The same for asyncio."""
    if not _is_break(error):
        return error
    for _ in range(_MOST_CHECKS):
        try:
            await check(b"", timeout=_SECONDS)
        except grpc.RpcError as failure:
            if failure.code() in _SILENCE:
                continue
        return error
    return _lost(error)


def _is_break(error: OutriderError) -> bool:
    return isinstance(error, Unavailable) and error.broke


def _lost(error: OutriderError) -> ServerLost:
    return ServerLost(f"{error}: the server went while it was at work on the call, which may be what ended it")
