"""TokenStream: carries one generation's events from the engine thread to a reader on an event loop."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from collections.abc import Sequence as Seq

from services.engine.events import Aborted, Chunk, Event, Failed, Finished, Progress, Refused, num_records

_Call = Callable[[asyncio.AbstractEventLoop, Callable[[], object]], object]


def _wake_now(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    loop.call_soon_threadsafe(call)


class TokenStream:
    """A bounded queue between one producer thread and one asyncio consumer.

    The producer keeps the bound (backpressure): the scheduler leaves out a sequence whose stream `is_full`, so that a
    slow reader costs bounded memory and does not stop others. Waiting chunks are merged into one, and waiting progress
    events into the newest, with all records.
    """

    def __init__(
        self,
        *,
        capacity: int,
        on_drained: Callable[[], None],
        wake: _Call = _wake_now,
        take_turn: _Call = _wake_now,
    ) -> None:
        """`capacity` is in tokens, including those of a prompt with records; `on_drained` is called when a full stream
        has room again. `wake` notifies the reader's event loop, the running one, of events, and `take_turn`
        schedules the reader for the next one.
        """
        self._capacity = capacity
        self._on_drained = on_drained
        self._wake, self._take_turn = wake, take_turn
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._events: deque[Event] = deque()
        self._num_tokens = 0
        self._ready = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether as many tokens wait as the stream may hold."""
        return self._num_tokens >= self._capacity

    def put(self, event: Event) -> None:
        """Append an event; called by the engine thread."""
        with self._lock:
            was_empty = not self._events
            self._append(event)
        if was_empty:
            self._wake(self._loop, self._ready.set)

    def _append(self, event: Event) -> None:
        self._num_tokens += num_records(event)
        match self._events[-1] if self._events else None, event:
            case Chunk() as last, Chunk():
                self._events[-1] = last + event
            case Progress() as last, Progress():
                self._events[-1] = last + event
            case _:
                self._events.append(event)

    def _pop(self) -> Event:
        with self._lock:
            event = self._events.popleft()
            self._ready.clear()
            has_more = bool(self._events)
            was_full = self.is_full
            self._num_tokens -= num_records(event)
            drained = was_full and not self.is_full
        if has_more:
            self._take_turn(self._loop, self._ready.set)
        if drained:
            self._on_drained()
        return event

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield events until the one that ends the generation."""
        while True:
            await self._ready.wait()
            event = self._pop()
            yield event
            if isinstance(event, Finished | Failed | Refused | Aborted):
                return


async def interleaved(streams: Seq[AsyncIterable[Event]]) -> AsyncGenerator[tuple[int, Event], None]:
    """The events of several streams as they come, each with its stream's index; at most one of each is held."""
    if len(streams) == 1:  # needs no task for each event
        async for event in streams[0]:
            yield 0, event
        return
    readers = [aiter(stream) for stream in streams]
    reading = {asyncio.create_task(_next(reader)): index for index, reader in enumerate(readers)}
    try:
        while reading:
            done, _ = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=reading.__getitem__):
                index = reading.pop(task)
                if (following := task.result()) is not None:
                    reading[asyncio.create_task(_next(readers[index]))] = index
                    yield index, following
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


async def _next(reader: AsyncIterator[Event]) -> Event | None:
    return await anext(reader, None)
