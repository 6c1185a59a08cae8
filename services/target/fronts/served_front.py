"""ServedFront: one front as the service sees it: its process, and the calls that it forwards."""

import asyncio
import logging
import socket
from collections import Counter, deque
from functools import partial
from itertools import islice

import grpc

from services.engine.config import ConfigError
from services.engine.worker_process import start_part
from services.target.fronts.call_dispatch import CallDispatch
from services.target.fronts.forwarded_call import ForwardedCall
from services.target.fronts.front import MOST_SECONDS, Front
from services.target.fronts.message_link import MessageLink
from services.target.fronts.messages import (
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

_START_SECONDS = 120.0
_AT_ONCE = 8  # calls that begin in one turn of the event loop


class ServedFront:
    """Made and used on one event loop: call `start`, then `stop`."""

    def __init__(self, dispatch: CallDispatch, ended: "Counter[tuple[str, str]]") -> None:
        """Starts the process; raises OSError if the system cannot.

        Its calls are answered by `dispatch`; `ended` counts them by method and code.
        """
        self._dispatch, self._ended = dispatch, ended
        self._begun: dict[int, Begin] = {}  # calls that wait for their turn
        self._calls: dict[int, tuple[ForwardedCall, asyncio.Task[None]]] = {}
        self._listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._shown: deque[asyncio.Future[None]] = deque()  # for each status that is on its way
        self._is_gone, self._listens = asyncio.Event(), False
        own, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = start_part(Front.__module__, theirs.fileno())
            except OSError:
                own.close()
                raise
        self._link = MessageLink(own, to_service, self._take, self._take_end)

    @property
    def process_id(self) -> int:
        """The id of its process; for any thread."""
        return self._process.pid

    async def start(self, order: Order) -> None:
        """Return once it listens; raises ConfigError if it cannot."""
        await self._link.open()
        self.send(order)
        try:
            async with asyncio.timeout(_START_SECONDS):
                problem = await self._listening
        except TimeoutError:
            problem = f"a front has not listened for {_START_SECONDS:g} s"
        if problem:
            self._process.kill()
            raise ConfigError(problem)
        self._listens = True

    def send(self, message: Message) -> None:
        """Send it a message, if its process has not ended."""
        if not self._is_gone.is_set():
            self._link.send(message)

    async def show(self, status: Serving) -> None:
        """Return once health checks report a status, or its process has ended; one that hangs is killed."""
        if self._is_gone.is_set() or not self._listens:
            return
        self._link.send(status)
        self._shown.append(shown := asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(MOST_SECONDS):
                await shown
        except TimeoutError:
            if not shown.done() or shown.cancelled():  # else this process was stopped meanwhile
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
            async with asyncio.timeout(MOST_SECONDS):
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
            case Begin(number):
                if not self._begun:
                    asyncio.get_running_loop().call_soon(self._begin_some)
                self._begun[number] = message
            case Drop(number):
                self._begun.pop(number, None)
                if (found := self._calls.get(number)) is not None:
                    _cancel(*found)
            case Shown():
                self._take_shown()
            case Ended(method, code):
                self._ended[method, code] += 1
            case Listening(problem):
                self._set_listening(problem)

    def _take_shown(self) -> None:
        if not (shown := self._shown.popleft()).done():  # else nobody waits any more
            shown.set_result(None)

    def _set_listening(self, problem: str) -> None:
        if not self._listening.done():
            self._listening.set_result(problem)

    def _begin_some(self) -> None:
        """Begin the first calls; the others follow in the next turns, so that streams do not wait for a crowd."""
        loop = asyncio.get_running_loop()
        for number in [*islice(self._begun, _AT_ONCE)]:
            call = ForwardedCall(self._begun.pop(number), self._link.send)
            task = loop.create_task(self._dispatch.answer(call))
            self._calls[number] = call, task
            task.add_done_callback(partial(self._end_call, number, call))
        if self._begun:
            loop.call_soon(self._begin_some)

    def _end_call(self, number: int, call: ForwardedCall, task: asyncio.Task[None]) -> None:
        del self._calls[number]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("%s failed", call.method, exc_info=error)
        if not call.has_ended:
            call.end(grpc.StatusCode.CANCELLED if task.cancelled() else grpc.StatusCode.INTERNAL)

    def _take_end(self) -> None:
        """Cancel the calls of a process that has ended, as if their clients had left."""
        self._is_gone.set()
        self._begun.clear()
        for found in self._calls.values():
            _cancel(*found)
        while self._shown:
            self._take_shown()
        self._link.close()
        self._set_listening("the process of a front has ended before it listened")


def _cancel(call: ForwardedCall, task: asyncio.Task[None]) -> None:
    task.cancel()
    call.drop()
