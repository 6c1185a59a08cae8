"""EventWriter: sends the events of all generations to the process that reads them."""

import pickle
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from services.engine.events import Event, num_records
from services.target.frames import to_frame


class EventWriter:
    """Sends the events of a step as one frame, on a thread of its own, which works while the pass computes."""

    def __init__(self, end: socket.socket, on_flush: Callable[[], None]) -> None:
        """`on_flush` is called by the engine once a step, before its pass."""
        self._end, self._on_flush = end, on_flush
        self._events: deque[tuple[int, Event]] = deque()
        self._flushes: SimpleQueue[bool] = SimpleQueue()  # False: the last one
        self._thread = threading.Thread(target=self._send_all, name="events", daemon=True)
        self._thread.start()

    def put(self, number: int, event: Event) -> None:
        """Add an event of the generation with this number."""
        self._events.append((number, event))

    def flush(self) -> None:
        """Send all events that were put so far; called by the engine thread."""
        self._on_flush()
        if self._events:
            self._flushes.put(True)

    def close(self) -> None:
        """Send the rest, and end the thread."""
        self._flushes.put(True)
        self._flushes.put(False)
        self._thread.join()

    def _send_all(self) -> None:
        with suppress(OSError):  # the other process has ended, and soon this one does too
            while self._flushes.get():
                events = [self._events.popleft() for _ in range(len(self._events))]
                if events:
                    self._end.sendall(to_frame(pickle.dumps(events, pickle.HIGHEST_PROTOCOL)))


class SentEvents:
    """Where the engine puts the events of one generation: a sink that knows how many tokens its reader has taken."""

    def __init__(self, number: int, writer: EventWriter, *, capacity: int, on_drained: Callable[[], None]) -> None:
        """`capacity` is in tokens, including those of a prompt with records; `on_drained` is called when a full one has
        room again.
        """
        self._number, self._writer = number, writer
        self._capacity, self._on_drained = capacity, on_drained
        self._num_put, self._num_taken = 0, 0  # tokens; each is written by one thread

    @property
    def is_full(self) -> bool:
        """Whether as many tokens wait for the reader as may."""
        return self._num_put - self._num_taken >= self._capacity

    def put(self, event: Event) -> None:
        """Add an event; called by the engine thread."""
        self._num_put += num_records(event)
        self._writer.put(self._number, event)

    def take(self, num_tokens: int) -> None:
        """Take note that the reader has taken so many tokens."""
        before = self._num_taken
        self._num_taken += num_tokens
        num_put = self._num_put  # read last, as the engine may be about to rest
        if num_put - before >= self._capacity > num_put - self._num_taken:
            self._on_drained()
