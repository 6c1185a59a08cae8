"""A TCP proxy that can hold back what a server sends, and reset its connections."""

import math
import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class CuttingProxy:
    """Forwards a port of its own to another one on this machine, until the connections are cut.

    Of each connection the client receives at most `max_bytes`; the rest is held back.
    """

    def __init__(self, port: int, *, max_bytes: float = math.inf) -> None:
        self.flows = threading.Event()
        """While it is not set, nothing more comes from the server."""
        self.flows.set()
        self._max_bytes = max_bytes
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()  # a connection made just now is cut by the next call, and no other twice
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """Reset every connection; new ones are forwarded as before."""
        with self._lock:
            connections, self._connections = self._connections, []
        for connection in reversed(connections):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with suppress(OSError):  # the other end may be gone already
                connection.shutdown(socket.SHUT_RD)  # wakes the thread that reads it
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            server = socket.create_connection(self._target)
            with self._lock:
                self._connections += [client, server]
            for way in ((client, server, math.inf, True), (server, client, self._max_bytes, False)):
                self._threads.append(threading.Thread(target=self._forward, args=way))
                self._threads[-1].start()

    def _forward(self, source: socket.socket, sink: socket.socket, max_bytes: float, is_request: bool) -> None:
        try:
            while data := source.recv(int(min(max_bytes, 65536))):
                if not is_request:
                    self.flows.wait()
                sink.sendall(data)
                max_bytes -= len(data)
                if max_bytes == 0:
                    return
            sink.shutdown(socket.SHUT_WR)
        except OSError:  # cut
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.flows.set()
        self._threads[0].join()  # which makes no further connections from here on
        self.cut()
        for thread in self._threads:
            thread.join()
