"""EngineServer: the process of a model's engine: serves the process that started it, and ends with it."""

import asyncio
import gc
import logging
import os
import socket
from collections.abc import Awaitable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from inspect import isawaitable
from pathlib import Path
from typing import Any

from services.engine.cache.cache_journal import CacheBatch, SnapshotFacts, Stored
from services.engine.decoder.loading_progress import LoadingProgress
from services.engine.events import Failed
from services.engine.hub.fetch import fetch
from services.engine.lora.adapter import Adapter
from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from services.service.life.log_level import set_level
from services.service.server_config import ServerConfig
from services.service.service_process import prepare_part
from services.target.engines.calls import Answer, pickle_answer, unpickle_call
from services.target.engines.event_writer import EventWriter, SentEvents
from services.target.engines.model_drafts import ModelDrafts
from services.target.engines.model_setup import ModelSetup
from services.target.engines.own_engine import OwnEngine
from services.target.engines.vitals import Vitals
from services.target.frames import read_frames, to_frame
from services.target.generation.engine import Order, TargetEngine
from services.target.generation.engine_facts import EngineFacts
from services.target.generation.engine_figures import EngineFigures, SequenceFigures
from services.target.generation.journal_reader import JournalReader
from services.target.speculation.link.draft_links import DraftLinks
from services.telemetry.log_lines import configure_logging

logger = logging.getLogger(__name__)

THE_ENGINE = 0
"""The number of the engine itself among those of its generations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOrder:
    """The engine to open."""

    setup: ModelSetup  # whose model is in a folder or file of this machine
    server: ServerConfig
    loras: Mapping[str, Path]
    log_format: str
    log_level: str

    @property
    def model(self) -> Path:
        """The model's folder, or its first file."""
        return fetch(self.setup.engine.model).path


class EngineServer:
    """Its methods are called by the other process, in order, on the event loop of this one."""

    def __init__(self, events: socket.socket, vitals: Vitals) -> None:
        self._vitals = vitals
        self._writer = EventWriter(events, self._publish)
        self._own: OwnEngine | None = None
        self._engine: TargetEngine | None = None
        self._sinks: dict[int, SentEvents] = {}

    async def open(self, order: EngineOrder) -> tuple[EngineFacts, Mapping[str, Adapter]]:
        """Load the model; returns the facts about it, and its adapters. Raises what TargetEngine.open does."""
        configure_logging("target", order.log_format)
        set_level(order.log_level)
        self._own = own = OwnEngine(order.setup, order.server)
        self._engine = engine = await asyncio.to_thread(
            own.open,
            order.setup.engine,
            order.loras,
            _SharedProgress(self._vitals),
            on_failure=self._report_failure,
            deliveries=self._writer,
            pulse_memory=self._vitals.pulse_memory,
        )
        gc.freeze()  # loaded objects stay: scanning them would delay every stream by tens of milliseconds
        return engine.facts, engine.model.adapters

    async def start_drafts(self) -> None:
        """Link to the drafts; returns once those that are there were rehearsed, or after a time limit."""
        assert self._own is not None
        await self._own.start()

    def submit(self, requests: Mapping[int, Request]) -> None:
        """Begin the generations of requests that share a prompt, by their numbers."""
        try:
            self.engine.start(self.engine.prepare(self._orders(requests)))
        except Exception:
            logger.exception("a request could not be begun")
            for number in requests:
                self._writer.put(number, Failed("the engine could not begin it"))
            self.engine.wake()  # it delivers

    def submit_slowly(self, requests: Mapping[int, Request]) -> Awaitable[None]:
        """The same where a grammar is compiled or received tokens are replayed; raises ContinuationError."""
        return self._start_slowly(self._orders(requests))

    async def _start_slowly(self, orders: list[Order]) -> None:
        outputs = await self.engine.prepare_slowly(orders)
        if self._sinks.keys() >= outputs.keys():  # else they were cancelled meanwhile
            self.engine.start(outputs)

    def _orders(self, requests: Mapping[int, Request]) -> list[Order]:
        orders = []
        for number, request in requests.items():
            capacity = self.engine.facts.capacity(request.output)
            sink = SentEvents(number, self._writer, capacity=capacity, on_drained=self.engine.wake)
            self._sinks[number] = sink
            orders.append(Order(number, request, sink))
        return orders

    def take(self, counts: Mapping[int, int]) -> None:
        """Take note of how many tokens were taken by the readers of generations."""
        for number, count in counts.items():
            if (sink := self._sinks.get(number)) is not None:
                sink.take(count)

    def cancel(self, number: int) -> None:
        """Drop a generation; see TargetEngine."""
        self._sinks.pop(number, None)
        self.engine.cancel(number)

    def hold(self, number: int) -> None:
        """Keep blocks findable; see TargetEngine."""
        self.engine.hold(number)

    def let_go(self, number: int) -> None:
        """Release blocks; see TargetEngine."""
        self.engine.let_go(number)

    def abandon(self, message: str) -> None:
        """End all generations; see TargetEngine."""
        self.engine.abandon(message)

    def abort(self, number: int, message: str) -> None:
        """End a generation for good; see TargetEngine."""
        self.engine.abort(number, message)

    async def load_adapter(self, name: str, folder: Path) -> Adapter:
        """Load an adapter; raises CheckpointError."""
        return await asyncio.to_thread(self.engine.load_adapter, name, folder)

    def unload_adapter(self, adapter: Adapter) -> None:
        """Unload an adapter that requests no longer use."""
        self.engine.unload_adapter(adapter)

    async def forget_cache(self) -> int:
        """Empty the prefix cache, and return how many blocks could be found in it."""
        return await asyncio.wrap_future(self.engine.forget_cache())

    async def read_journal(self, after: int, seconds: float) -> Seq[CacheBatch]:
        """Return batches of the prefix cache's journal; raises EventsLostError."""
        return await self._journal.read(after, seconds)

    async def last_batch(self) -> int:
        """Return the number of the last batch of the prefix cache's journal."""
        return await self._journal.last()

    async def begin_snapshot(self) -> SnapshotFacts:
        """Begin a snapshot of the prefix cache."""
        return await self._journal.begin_snapshot()

    async def snapshot_part(self, last: int, index: int) -> Seq[Stored]:
        """Return a part of a snapshot; raises EventsLostError."""
        return await self._journal.part(last, index)

    def end_snapshot(self, last: int) -> None:
        """Forget a snapshot that is not read on."""
        self._journal.end_snapshot(last)

    async def figures(self) -> tuple[EngineFigures, DraftLinks]:
        """What the engine has counted so far, and the state of all links to drafts."""
        has_drafts = self._own is not None and self._own.drafts is not None
        return self.engine.figures(), self._drafts.links() if has_drafts else DraftLinks()

    async def sequences(self) -> Mapping[int, SequenceFigures]:
        """How far the generations are, by their numbers."""
        return self.engine.sequences()

    async def add_draft(self, address: str) -> None:
        """Add a draft; raises ValueError."""
        await self._drafts.add(address)

    async def remove_draft(self, address: str) -> None:
        """Remove a draft; raises ValueError."""
        await self._drafts.remove(address)

    async def absences(self) -> Mapping[str, str]:
        """Why drafts are not linked, by their addresses."""
        return await self._drafts.absences()

    def set_log_level(self, level: str) -> None:
        """Log messages of this level or above."""
        set_level(level)

    async def close(self) -> None:
        """End the engine; streams that still have a reader end with an error."""
        try:
            if self._own is not None:
                await self._own.stop()
        finally:
            if self._engine is not None:
                await asyncio.to_thread(self._engine.close)

    @property
    def engine(self) -> TargetEngine:
        """The engine, which is open."""
        assert self._engine is not None
        return self._engine

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self.engine.tokenizer

    @property
    def _journal(self) -> JournalReader:
        assert self.engine.journal is not None
        return self.engine.journal

    @property
    def _drafts(self) -> ModelDrafts:
        assert self._own is not None
        assert self._own.drafts is not None
        return self._own.drafts

    def _publish(self) -> None:
        if self._engine is not None:
            self._vitals.load = self._engine.load

    def _report_failure(self) -> None:
        self._writer.put(THE_ENGINE, Failed("the engine has failed"))
        self._writer.flush()


class _SharedProgress(LoadingProgress):
    """Writes the share that is loaded to memory that the other process reads and logs."""

    def __init__(self, vitals: Vitals) -> None:
        super().__init__()
        self._vitals = vitals

    def advance(self, share: float) -> None:
        """Set the share of the weights that is loaded, 0 to 1."""
        self._vitals.loaded_share = share


def main(calls: int, events: int, vitals: int) -> None:
    """Serve on these descriptors until the other process closes them, or ends."""
    prepare_part()
    asyncio.run(_serve(socket.socket(fileno=calls), EngineServer(socket.socket(fileno=events), Vitals(vitals))))


async def _serve(calls: socket.socket, server: EngineServer) -> None:
    tasks: set[asyncio.Task[None]] = set()  # which the event loop itself does not keep

    def take(data: bytes) -> None:
        call = unpickle_call(data, lambda: server.tokenizer)
        try:
            value = call.method(server, *call.arguments)
        except Exception as error:
            reply(Answer(call.number, None, error))
            return
        if not isawaitable(value):
            reply(Answer(call.number, value))
            return
        task = asyncio.create_task(reply_later(call.number, value))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def reply_later(number: int, value: Awaitable[Any]) -> None:
        try:
            reply(Answer(number, await value))
        except Exception as error:
            reply(Answer(number, None, error))

    def reply(answer: Answer) -> None:
        if answer.number:
            transport.write(to_frame(pickle_answer(answer)))
        elif answer.error is not None:
            logger.error("a call of the service has failed", exc_info=answer.error)

    transport = await read_frames(calls, take, lambda: os._exit(0))  # whatever still runs is for nobody
    await asyncio.Event().wait()
