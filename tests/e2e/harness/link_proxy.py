"""LinkProxy: a TCP proxy on the test's event loop that delays, stalls and cuts what passes through it."""

import asyncio
from contextlib import suppress
from typing import Self


class LinkProxy:
    """Forwards one address to another, both ways; `delay` is in seconds each way."""

    def __init__(self, address: str, target: str, *, delay: float = 0.0) -> None:
        self.address, self._target = address, target
        self._delay = delay
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def stall(self) -> None:
        """Hold everything back, without closing anything."""
        self._flows.clear()

    def flow(self) -> None:
        """Let it pass again."""
        self._flows.set()

    def cut(self) -> None:
        """Reset every connection; new ones are forwarded as before."""
        while self._writers:
            self._writers.pop().transport.abort()

    async def __aenter__(self) -> Self:
        host, _, port = self.address.rpartition(":")
        self._server = await asyncio.start_server(self._accept, host, int(port))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Reset every connection, and take no new ones."""
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target.rpartition(":")
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:  # there is no server: the proxy closes the connection too
            writer.transport.abort()
            return
        self._writers += [writer, far_writer]
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
            self._spawn(self._take(source, queue))
            self._spawn(self._give(queue, sink))

    def _spawn(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, source: asyncio.StreamReader, queue: "asyncio.Queue[tuple[float, bytes]]") -> None:
        data = b"..."
        while data:
            try:
                data = await source.read(65536)
            except OSError:  # cut
                data = b""
            queue.put_nowait((asyncio.get_running_loop().time() + self._delay, data))

    async def _give(self, queue: "asyncio.Queue[tuple[float, bytes]]", sink: asyncio.StreamWriter) -> None:
        while True:
            due, data = await queue.get()
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            await self._flows.wait()
            if not data:
                sink.close()
                return
            sink.write(data)
            with suppress(OSError):  # cut
                await sink.drain()
