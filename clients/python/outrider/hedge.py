"""hedged: where a server is slow, asks a second one for the same bytes, and takes whichever is ahead."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import grpc.aio

from outrider.v1 import generation_pb2

Event: TypeAlias = generation_pb2.StreamGenerateResponse
Call: TypeAlias = grpc.aio.UnaryStreamCall[Any, Event]
_OF_TOKENS = ("chunk", "finished")


class Racer:
    """A call that is read event by event."""

    def __init__(self, call: Call, address: int, admitted: Callable[[Call], Awaitable[None]]) -> None:
        """`address` is the index of its server's; `admitted` returns when the server has admitted the request."""
        self.call, self.address = call, address
        self.held: list[Event] = []
        """What it has sent, while another call leads."""
        self.is_over = False
        """Whether it has ended while another call led."""
        self.reading: asyncio.Future[Event | None] = asyncio.ensure_future(self._begin(admitted))

    async def _begin(self, admitted: Callable[[Call], Awaitable[None]]) -> Event | None:
        await admitted(self.call)
        return await self._read()

    async def _read(self) -> Event | None:
        event = await self.call.read()
        return event if isinstance(event, Event) else None

    def take(self) -> Event | None:
        """Return what was read, None at the end of the call, and read on; raises the call's error."""
        event = self.reading.result()
        if event is not None:
            self.reading = asyncio.ensure_future(self._read())
        return event

    def collect(self) -> bool:
        """Hold what was read; returns whether it has tokens."""
        try:
            event = self.take()
        except (grpc.RpcError, asyncio.CancelledError):
            event = None
        if event is None:
            self.is_over = True
            return False
        self.held.append(event)
        return _has_tokens(event)

    def has_failed(self) -> bool:
        """Whether the call has ended with an error."""
        return self.reading.done() and (self.reading.cancelled() or self.reading.exception() is not None)

    def cancel(self) -> None:
        """End the call."""
        self.call.cancel()
        self.reading.cancel()
        self.reading.add_done_callback(lambda reading: reading.cancelled() or reading.exception())


async def hedged(
    first: Racer, begin_rival: Callable[[], Racer], seconds: float, take_over: Callable[[Racer], bool]
) -> AsyncGenerator[Event, None]:
    """Yield the events of the first call. Each time that no tokens have come for so long, a rival is begun: the one
    with the next tokens is read on, if `take_over` allows it, and the other one is cancelled.

    Raises the error of a call without a rival.
    """
    leader = first
    rival: Racer | None = None
    due: float | None = _time_after(seconds)
    try:
        while True:
            await _either(leader, rival, due)
            if leader.reading.done() and (rival is None or not leader.has_failed()):
                if (event := leader.take()) is None:
                    return
                if _has_tokens(event):
                    _cancel(rival)
                    rival, due = None, _time_after(seconds)
                yield event
            elif rival is None:
                rival, due = begin_rival(), None
            elif not leader.has_failed() and not rival.collect():
                rival = None if rival.is_over else rival
            elif not take_over(rival):
                _cancel(rival)
                rival = None
            else:
                leader.cancel()
                leader, rival, due = rival, None, _time_after(seconds)
                for event in leader.held:
                    yield event
    finally:
        leader.cancel()
        _cancel(rival)


async def _either(leader: Racer, rival: Racer | None, due: float | None) -> None:
    """Wait until one of them has been read, or that time has come."""
    racers = [leader.reading] if rival is None else [leader.reading, rival.reading]
    timeout = None if due is None else max(0.0, due - _time_after(0))
    await asyncio.wait(racers, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)


def _cancel(rival: Racer | None) -> None:
    if rival is not None:
        rival.cancel()


def _has_tokens(event: Event) -> bool:
    return event.WhichOneof("event") in _OF_TOKENS


def _time_after(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds
