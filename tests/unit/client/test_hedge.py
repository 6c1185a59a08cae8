"""Two calls for the same bytes: the one with the next tokens is read on, whatever becomes of the other."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from grpc import aio

from outrider.hedge import Event, Racer, hedged
from outrider.v1 import generation_pb2

SOON = 0.005  # seconds until a rival is begun
STARTED = Event(started=generation_pb2.Started(fingerprint="f"))
END = Event(finished=generation_pb2.Finished())


def tokens(*token_ids: int) -> Event:
    return Event(chunk=generation_pb2.Chunk(token_ids=token_ids))


def broken() -> aio.AioRpcError:
    return aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata())


class Script:
    """A call that sends what a test puts into it."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[Event | Exception | None] = asyncio.Queue()
        self.is_cancelled = False

    def send(self, *events: Event | Exception | None) -> None:
        """An error, or None for the end, comes last."""
        for event in events:
            self.sent.put_nowait(event)

    async def read(self) -> Any:
        event = await self.sent.get()
        if isinstance(event, Exception):
            raise event
        return aio.EOF if event is None else event

    def cancel(self) -> None:
        self.is_cancelled = True


async def admitted(call: Any) -> None:
    assert isinstance(call, Script)


class Race:
    """A leader, and the rivals that are begun; what they send together is in `got`."""

    def __init__(self, take_over: Callable[[Racer], bool] = lambda rival: True, seconds: float = SOON) -> None:
        self.leader, self.rivals, self.got = Script(), list[Script](), list[Event]()
        self.begun = asyncio.Event()

        async def run() -> None:
            async for event in hedged(Racer(self.leader, 0, admitted), self._begin, seconds, take_over):  # type: ignore[arg-type]
                self.got.append(event)

        self.task = asyncio.ensure_future(run())

    def _begin(self) -> Racer:
        self.begun.set()
        self.rivals.append(Script())
        return Racer(self.rivals[-1], 1, admitted)  # type: ignore[arg-type]

    async def has(self, *events: Event) -> None:
        """Wait until so much has arrived."""
        while len(self.got) < len(events):
            assert not self.task.done()
            await asyncio.sleep(0)
        assert self.got == [*events]


async def test_a_fast_call_has_no_rival() -> None:
    race = Race(seconds=3600)
    race.leader.send(STARTED, tokens(1), tokens(2), END, None)
    await race.task
    assert race.got == [STARTED, tokens(1), tokens(2), END]
    assert not race.rivals


async def test_a_rival_with_the_first_tokens_is_read_on() -> None:
    race = Race()
    await race.begun.wait()
    race.rivals[0].send(STARTED, tokens(1))
    await race.has(STARTED, tokens(1))
    assert (race.leader.is_cancelled, race.rivals[0].is_cancelled) == (True, False)
    race.rivals[0].send(END, None)
    await race.task


async def test_a_rival_without_tokens_is_behind() -> None:
    race = Race()
    race.leader.send(STARTED)
    await race.begun.wait()
    race.rivals[0].send(STARTED)
    race.leader.send(tokens(1), END, None)
    await race.task
    assert race.got == [STARTED, tokens(1), END]
    assert race.rivals[0].is_cancelled


async def test_each_pause_has_a_rival_of_its_own() -> None:
    race = Race()
    for number in (1, 2):
        race.begun.clear()
        await race.begun.wait()
        race.leader.send(tokens(number))
        await race.has(*map(tokens, range(1, number + 1)))
    race.leader.send(END, None)
    await race.task
    assert [rival.is_cancelled for rival in race.rivals[:2]] == [True, True]


async def test_a_rival_that_fails_is_forgotten() -> None:
    for failure in (broken(), None):
        race = Race()
        await race.begun.wait()
        race.rivals[0].send(STARTED, failure)
        while not race.rivals[0].sent.empty():
            await asyncio.sleep(0)
        race.leader.send(STARTED, tokens(1), END, None)
        await race.task
        assert race.got == [STARTED, tokens(1), END]


async def test_a_rival_with_other_bytes_does_not_take_over() -> None:
    race = Race(take_over=lambda rival: rival.held[0].started.fingerprint == "g")
    await race.begun.wait()
    race.rivals[0].send(STARTED, tokens(9))
    while not race.rivals[0].is_cancelled:
        await asyncio.sleep(0)
    race.leader.send(STARTED, tokens(1), END, None)
    await race.task
    assert race.got == [STARTED, tokens(1), END]


@pytest.mark.parametrize("begins_first", [False, True])
async def test_a_rival_goes_on_for_a_call_that_has_failed(begins_first: bool) -> None:
    race = Race()
    await race.begun.wait()
    if begins_first:
        race.rivals[0].send(STARTED)
        while not race.rivals[0].sent.empty():
            await asyncio.sleep(0)
    race.leader.send(broken())
    race.rivals[0].send(*([] if begins_first else [STARTED]), tokens(1), END, None)
    await race.task
    assert race.got == [STARTED, tokens(1), END]


async def test_the_error_of_the_last_call_is_raised() -> None:
    race = Race()
    await race.begun.wait()
    race.rivals[0].send(broken())
    race.leader.send(broken())
    with pytest.raises(aio.AioRpcError):
        await race.task


async def test_nothing_is_left_when_the_reader_leaves() -> None:
    race = Race()
    await race.begun.wait()
    await asyncio.sleep(0)
    race.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await race.task
    assert (race.leader.is_cancelled, race.rivals[0].is_cancelled) == (True, True)
