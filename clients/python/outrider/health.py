"""Health: whether a server is still there whose connection broke under a call."""

from collections.abc import Callable
from typing import Any

import grpc

from outrider.errors import OutriderError, ServerLost, Unavailable

CHECK = "/grpc.health.v1.Health/Check"
_SECONDS = 1.0
_SILENCE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


def examined(error: OutriderError, check: Callable[..., Any]) -> OutriderError:
    """The error of a call that had not started, or ServerLost where the server is gone since; `check` asks it."""
    if not _is_break(error):
        return error
    try:
        check(b"", timeout=_SECONDS)
    except grpc.RpcError as failure:
        return _judged(error, failure)
    return error


async def examined_async(error: OutriderError, check: Callable[..., Any]) -> OutriderError:
    """The same for asyncio."""
    if not _is_break(error):
        return error
    try:
        await check(b"", timeout=_SECONDS)
    except grpc.RpcError as failure:
        return _judged(error, failure)
    return error


def _is_break(error: OutriderError) -> bool:
    return isinstance(error, Unavailable) and error.broke


def _judged(error: OutriderError, failure: grpc.RpcError) -> OutriderError:
    """Not every server knows of health, but each that lives answers."""
    if failure.code() not in _SILENCE:
        return error
    return ServerLost(f"{error}: the server went while it was at work on the call, which may be what ended it")
