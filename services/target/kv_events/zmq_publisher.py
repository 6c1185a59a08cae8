"""ZmqPublisher: sends KV events to all subscribers by ZMQ, and again to those that ask."""

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from functools import partial

import zmq
import zmq.asyncio

from services.engine.config import ConfigError
from services.service.errors import EngineFailedError, RangeError, RpcError, SubscriberLostError
from services.target.kv_events.follow import Followed, follow
from services.target.kv_events.zmq_config import ZmqConfig
from services.target.kv_events.zmq_messages import END, encode, number_bytes, read_number
from services.target.models.target_model import TargetModel

logger = logging.getLogger(__name__)

Send = Callable[[list[bytes]], Awaitable[None]]

_MOST_WAITING = 256  # messages for a subscriber; what is beyond is lost to it, and the numbers show that
_POLL_SECONDS = 1.0  # while no model is loaded
_MOST_REPLAYS = 8  # at once
_REPLAY_SECONDS = 30.0  # for one of them, however slowly its client reads
_RETRY_SECONDS = 0.01  # until a client may have room again
_LARGEST_REQUEST = 64  # bytes


class ZmqPublisher:
    """Call `start`, then `close`, on one event loop.

    Messages are [topic, number, batch] as vLLM sends them. A subscriber that misses numbers asks for those from the
    first one on, and gets them or, if they are not kept any more, a snapshot, which clears what it knew.
    """

    def __init__(self, config: ZmqConfig, model: TargetModel) -> None:
        """`model` may be loaded and unloaded."""
        self._config, self._model = config, model
        self._context: zmq.asyncio.Context | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._replays: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Open the addresses; raises ConfigError if one can't be."""
        self._context = zmq.asyncio.Context()
        try:
            self._open(self._context)
        except ConfigError:
            await self.close()
            raise

    def _open(self, context: zmq.asyncio.Context) -> None:
        context.setsockopt(zmq.IPV6, 1)
        publisher, address = context.socket(zmq.PUB), self._config.endpoint
        publisher.set_hwm(_MOST_WAITING)
        does_listen = address.startswith(("ipc://", "tcp://*", "tcp://[::]"))
        _open("kv_events_zmq", publisher.bind if does_listen else publisher.connect, address)
        self._begin(self._publish(publisher))
        if self._config.replay is not None:
            replayer = context.socket(zmq.ROUTER)
            replayer.set_hwm(_MOST_WAITING)
            replayer.setsockopt(zmq.ROUTER_MANDATORY, 1)  # else what a slow reader does not take is lost
            replayer.setsockopt(zmq.MAXMSGSIZE, _LARGEST_REQUEST)
            _open("kv_events_replay", replayer.bind, self._config.replay)
            self._begin(self._replay(replayer))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(_report)
        self._tasks.append(task)

    async def close(self) -> None:
        """Send no more."""
        tasks = [*self._tasks, *self._replays]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._context is not None:
            self._context.destroy(linger=0)

    async def _publish(self, publisher: zmq.asyncio.Socket) -> None:
        """Send all batches of each engine in turn, from a snapshot on, which is empty after a start."""
        while True:
            try:
                async with aclosing(self._follow(0)) as batches:
                    async for batch in batches:
                        if batch is not None:
                            await publisher.send_multipart([self._topic(), *_frames(batch)])
                            await asyncio.sleep(0)  # let others have their turn: nothing else here waits
            except SubscriberLostError as error:
                logger.warning("KV events by ZMQ begin again with a snapshot: %s", error)
            except (RpcError, EngineFailedError) as error:
                logger.debug("KV events by ZMQ end until a model is loaded: %s", error)
            await asyncio.sleep(_POLL_SECONDS)

    async def _follow(self, start: int) -> AsyncGenerator[Followed | None, None]:
        """Follow the engine that is loaded now, until it is another one."""
        serving = self._model.serving
        if serving is not None and serving.engine.journal is not None:
            async with aclosing(follow(serving.engine.journal, start)) as batches:
                async for batch in batches:
                    if self._model.serving is not serving:
                        break
                    yield batch

    def _topic(self) -> bytes:
        return (self._config.topic or f"kv@{socket.gethostname()}@{self._model.name}").encode()

    async def _replay(self, replayer: zmq.asyncio.Socket) -> None:
        """Answer requests: [client, "", number], to which each answer is [client, "", …]."""
        while True:
            client, *rest = await replayer.recv_multipart()
            start = read_number(rest[-1]) if len(rest) == 2 else None
            if start is None:
                logger.warning("a request for KV events must be one number of 8 bytes, after an empty frame")
                continue
            if len(self._replays) == _MOST_REPLAYS:
                await asyncio.wait(self._replays, return_when=asyncio.FIRST_COMPLETED)
            replay = asyncio.create_task(self._send_again(partial(_answer, replayer, client), start))
            self._replays.add(replay)
            replay.add_done_callback(self._replays.discard)

    async def _send_again(self, send: Send, start: int) -> None:
        """Send what there is from that number on, or else a snapshot and what follows it."""
        try:
            async with asyncio.timeout(_REPLAY_SECONDS):
                try:
                    await self._send_from(send, start)
                except RangeError:
                    await self._send_from(send, 0)
        except (zmq.ZMQError, TimeoutError, RpcError, EngineFailedError) as error:
            logger.warning("a request for KV events from number %s on ends early: %r", start, error)

    async def _send_from(self, send: Send, start: int) -> None:
        async with aclosing(self._follow(start)) as batches:
            async for batch in batches:
                if batch is None:
                    break
                await send(_frames(batch))
        await send([END, b""])


async def _answer(replayer: zmq.asyncio.Socket, client: bytes, frames: list[bytes]) -> None:
    while True:
        try:
            await replayer.send_multipart([client, b"", *frames], zmq.DONTWAIT)
        except zmq.Again:  # this client has no room; others may have
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            await asyncio.sleep(0)
            return


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("KV events are not sent by ZMQ any more", exc_info=error)


def _frames(batch: Followed) -> list[bytes]:
    return [number_bytes(batch.number), encode(batch)]


def _open(option: str, connect: Callable[[str], object], address: str) -> None:
    try:
        connect(address)
    except zmq.ZMQError as error:
        raise ConfigError(f"{option} is {address!r}, which cannot be opened: {error}") from error
