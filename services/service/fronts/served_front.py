"""ServedFront: one front as the service sees it: its process, and the calls that it forwards."""

import asyncio
import logging
import socket
import subprocess
from collections import Counter, deque

from services.engine.config import ConfigError
from services.engine.worker_process import worker_command
from services.service.fronts.call_dispatch import CallDispatch
from services.service.fronts.forwarded_call import ForwardedCall
from services.service.fronts.front import Front
from services.service.fronts.message_link import MessageLink
from services.service.fronts.messages import (
    Begin,
    Drop,
    Ended,
    Listening,
    Message,
    Order,
    Received,
    Sent,
    Serving,
    Shown,
    Stop,
    ToService,
    to_service,
)

logger = logging.getLogger(__name__)

_MOST_SECONDS = 10.0  # for an answer, and for the connections to close


class ServedFront:
    """Made and used on one event loop: call `start`, then `stop`."""

    def __init__(self, dispatch: CallDispatch, ended: "Counter[tuple[str, str]]") -> None:
        """Starts the process. Its calls are answered by `dispatch`; `ended` counts them by method and code."""
        self._dispatch, self._ended = dispatch, ended
        self._calls: dict[int, tuple[ForwardedCall, asyncio.Task[None]]] = {}
        self._listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._shown: deque[asyncio.Future[None]] = deque()  # for each status that is on its way
        self._is_gone = asyncio.Event()
        own, theirs = socket.socketpair()
        command = worker_command(Front.__module__, theirs.fileno())
        # In a session of its own, so that Ctrl-C in a terminal reaches only the service.
        self._process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], start_new_session=True, stdin=subprocess.DEVNULL
        )
        theirs.close()
        self._link = MessageLink(own, to_service, self._take, self._take_end)

    @property
    def process_id(self) -> int:
        """The id of its process; for any thread."""
        return self._process.pid

    async def start(self, order: Order) -> None:
        """Return once it listens; raises ConfigError if it cannot."""
        await self._link.open()
        self.send(order)
        if problem := await self._listening:
            self._link.close()  # which ends the process
            raise ConfigError(problem)

    def send(self, message: Message) -> None:
        """Send it a message, if its process has not ended."""
        if not self._is_gone.is_set():
            self._link.send(message)

    async def show(self, status: Serving) -> None:
        """Return once health checks report a status, or its process has ended, as it does if it hangs."""
        if self._is_gone.is_set():
            return
        self._link.send(status)
        self._shown.append(shown := asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(_MOST_SECONDS):
                await shown
        except TimeoutError:
            logger.error("the front in process %s hangs, and is killed", self.process_id)
            self._process.kill()

    async def wait_gone(self) -> int:
        """Return the exit code of its process, once that has ended."""
        await self._is_gone.wait()
        return await asyncio.to_thread(self._process.wait)

    async def stop(self) -> None:
        """Close its connections; calls that still run end with UNAVAILABLE."""
        self.send(Stop())
        try:
            async with asyncio.timeout(_MOST_SECONDS):
                await self._is_gone.wait()
        except TimeoutError:
            self._process.kill()
        await asyncio.to_thread(self._process.wait)
        await asyncio.gather(*(task for _, task in self._calls.values()), return_exceptions=True)

    def _take(self, message: ToService) -> None:
        match message:
            case Sent(number):
                if (found := self._calls.get(number)) is not None:
                    found[0].take_sent()
            case Received(number, request):
                if (found := self._calls.get(number)) is not None:
                    found[0].take_request(request)
            case Begin():
                call = ForwardedCall(message, self._link.send)
                task = asyncio.create_task(self._answer(message.call, call))
                self._calls[message.call] = call, task
            case Drop(number):
                if (found := self._calls.get(number)) is not None:
                    found[1].cancel()
            case Shown():
                self._take_shown()
            case Ended(method, code):
                self._ended[method, code] += 1
            case Listening(problem):
                self._listening.set_result(problem)

    def _take_shown(self) -> None:
        if not (shown := self._shown.popleft()).done():  # else nobody waits any more
            shown.set_result(None)

    async def _answer(self, number: int, call: ForwardedCall) -> None:
        try:
            await self._dispatch.answer(call)
        finally:
            del self._calls[number]

    def _take_end(self) -> None:
        """Cancel the calls of a process that has ended, as if their clients had left."""
        self._is_gone.set()
        for _, task in self._calls.values():
            task.cancel()
        while self._shown:
            self._take_shown()
        self._link.close()
        if not self._listening.done():
            self._listening.set_result("the process of a front has ended before it listened")
