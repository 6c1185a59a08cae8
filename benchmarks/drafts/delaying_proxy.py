"""DelayingProxy: a TCP proxy that delays each byte by the same time, without limiting throughput."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Self

_PIECE = 1 << 16  # bytes
_DELIVERY = tuple[float, bytes]  # when it is due, and the bytes; no bytes at the end


class DelayingProxy:
    """Forwards connections to an address. `round_trip` is in seconds, half of it in each direction; a change applies
    to the bytes that arrive afterwards.

    It uses threads: an event loop's timers are as coarse as the shortest delay that is measured.
    """

    def __init__(self, target: str) -> None:
        """Listen at `address`, a free port of this machine."""
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.round_trip = 0.0
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close every connection."""
        _end(self._server)
        self._threads[0].join()  # from here on there are no new ones
        for each in self._sockets:
            _end(each)
        for thread in self._threads:
            thread.join()
        for each in (self._server, *self._sockets):
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near, _ = self._server.accept()
                self._join(near)

    def _join(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(self._target)
        except OSError:  # the target does not listen: close, as it would
            near.close()
            return
        self._sockets += [near, far]
        for source, sink in ((near, far), (far, near)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            on_the_way: SimpleQueue[_DELIVERY] = SimpleQueue()
            self._start(self._take, source, on_the_way)
            self._start(self._give, on_the_way, sink)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _take(self, source: socket.socket, on_the_way: SimpleQueue[_DELIVERY]) -> None:
        data = b"..."
        while data:
            try:
                data = source.recv(_PIECE)
            except OSError:  # ended
                data = b""
            on_the_way.put((time.monotonic() + self.round_trip / 2, data))

    def _give(self, on_the_way: SimpleQueue[_DELIVERY], sink: socket.socket) -> None:
        while True:
            due, data = on_the_way.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if not data:
                _end(sink)
                return
            with suppress(OSError):  # ended
                sink.sendall(data)


def _end(each: socket.socket) -> None:
    """Wake a thread that reads from this socket or accepts connections at it."""
    with suppress(OSError):  # already shut down
        each.shutdown(socket.SHUT_RDWR)
