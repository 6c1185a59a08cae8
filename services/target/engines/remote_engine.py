"""RemoteEngine: a model's engine in a process of its own, as it is seen in the process that serves requests."""

import asyncio
import logging
import os
import pickle
import socket
import weakref
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Sequence as Seq
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from services.engine.cache.cache_journal import CacheBatch, SnapshotFacts, Stored
from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.decoder.loading_progress import LoadingProgress
from services.engine.events import Event, Failed, num_records
from services.engine.grammar.process import GrammarProcess
from services.engine.loop import Pulse
from services.engine.lora.adapter import Adapter
from services.engine.lora.adapter_set import AdapterSet
from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from services.engine.worker_process import start_part
from services.service.errors import EngineFailedError
from services.target.engines.calls import Answer, Call, pickle_call
from services.target.engines.engine_server import THE_ENGINE, EngineOrder, EngineServer
from services.target.engines.vitals import Vitals, new_memory
from services.target.frames import read_frames, to_frame
from services.target.generation.engine_facts import EngineFacts
from services.target.generation.engine_figures import EngineFigures, EngineLoad, SequenceFigures
from services.target.generation.reader_turns import ReaderTurns
from services.target.sequence.generation import Generation
from services.target.sequence.token_stream import TokenStream
from services.target.speculation.link.draft_links import DraftLinks

logger = logging.getLogger(__name__)

Arguments = TypeVarTuple("Arguments")
Value = TypeVar("Value")
_POLL_SECONDS = 0.05  # between two looks at the progress of loading
_PATIENCE_SECONDS = 5.0  # for figures, which an engine's process gives at once unless it hangs
_LAST_SECONDS = 30.0  # for the last step, which may be long, and what is written to disk
_DEAD = "the engine has failed"


class RemoteEngine:
    """Made by `open`, ended by `close`; its methods are for the event loop, unless they say otherwise."""

    facts: EngineFacts
    checkpoint: Checkpoint
    tokenizer: Tokenizer
    adapters: AdapterSet
    _last_figures: tuple[EngineFigures, DraftLinks]

    def __init__(self, loop: asyncio.AbstractEventLoop, on_failure: Callable[[], None]) -> None:
        """Starts the process. `on_failure` is called once the engine has failed, or its process has ended by itself."""
        self._loop, self._on_failure = loop, on_failure
        self._numbers, self._questions = count(THE_ENGINE + 1), count(1)
        self._streams: dict[int, TokenStream] = {}
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._taken: dict[int, int] = {}  # tokens, by the numbers of generations, not reported yet
        self._turns = ReaderTurns(rests=False)
        self._is_closing = self._is_gone = False
        memory = new_memory()
        self._vitals = Vitals(memory)
        self._calls, calls = socket.socketpair()
        self._events, events = socket.socketpair()
        theirs = [calls.fileno(), events.fileno(), memory]
        self._process = start_part(EngineServer.__module__, *theirs)
        calls.close()
        events.close()
        os.close(memory)

    @classmethod
    def open(
        cls,
        loop: asyncio.AbstractEventLoop,
        order: EngineOrder,
        progress: LoadingProgress,
        *,
        try_out: Callable[[], None],
        on_failure: Callable[[], None],
    ) -> "RemoteEngine":
        """Load the model in a new process, and its tokenizer here, which takes long; for any thread but the loop's.

        Raises what TargetEngine.open raises, and EngineFailedError if the process ends.
        """
        engine = cls(loop, on_failure)
        try:
            asyncio.run_coroutine_threadsafe(engine._connect(), loop).result()
            opening = engine.ask_from_thread(EngineServer.open, order)
            engine.checkpoint = load_checkpoint(order.model, context_length=order.setup.engine.context_length)
            engine.tokenizer = Tokenizer.from_model(order.model)
            try_out()
            engine.facts, adapters = engine._await_opened(opening, progress)
            engine.adapters = _adapter_set(adapters, engine)
            engine._last_figures = engine.ask_from_thread(EngineServer.figures).result()
        except BaseException:
            engine.kill()
            engine.close()
            raise
        return engine

    async def _connect(self) -> None:
        self._transport = await read_frames(self._calls, self._take_answer, self._end_calls)
        await read_frames(self._events, self._take_events, self._end_streams)

    def _await_opened(
        self, opening: "Future[tuple[EngineFacts, Mapping[str, Adapter]]]", progress: LoadingProgress
    ) -> tuple[EngineFacts, Mapping[str, Adapter]]:
        while not wait([opening], _POLL_SECONDS).done:
            progress.advance(self._vitals.loaded_share)
        return opening.result()

    @property
    def journal(self) -> "RemoteJournalReader | None":
        """What its prefix cache stores and removes, if `kv_events` is set."""
        return RemoteJournalReader(self) if self.facts.config.kv_events else None

    @property
    def process_id(self) -> int:
        """The id of the engine's process; for any thread."""
        return self._process.pid

    @property
    def pulse(self) -> Pulse:
        """Signs of life of the thread that computes; for any thread."""
        return self._vitals.pulse

    @property
    def load(self) -> EngineLoad:
        """What it has to do now; for any thread."""
        return self._vitals.load

    def new_grammar_process(self) -> GrammarProcess:
        """Return a new process that tries grammars for the model."""
        return GrammarProcess(self.tokenizer, vocab_size=self.checkpoint.config.vocab_size)

    async def submit(self, requests: Seq[Request]) -> list[Generation]:
        """Begin the generations of requests that share a prompt, to be read on this event loop.

        Raises ContinuationError if received tokens are not the generation's.
        """
        generations = [self._expect(request, has_own_prompt=index == 0) for index, request in enumerate(requests)]
        numbered = {generation.number: generation.request for generation in generations}
        if requests[0].begins_slowly:
            try:
                await self.ask(EngineServer.submit_slowly, numbered)
            except BaseException:
                for number in numbered:
                    self.cancel(number)
                raise
        else:
            self.tell(EngineServer.submit, numbered)
        return generations

    def _expect(self, request: Request, *, has_own_prompt: bool) -> Generation:
        number, capacity = next(self._numbers), self.facts.capacity(request.output)
        stream = self._streams[number] = _CountedStream(number, capacity, self._report_taken, self._turns)
        if self._is_gone:
            stream.put(Failed(_DEAD))
        return Generation(number, request, stream, has_own_prompt=has_own_prompt)

    def cancel(self, number: int) -> None:
        """Drop a generation after the cancellation of its call; its blocks are free before the next step, unless it
        pins them.
        """
        self._streams.pop(number, None)
        self.tell(EngineServer.cancel, number)

    def hold(self, number: int) -> None:
        """Keep the blocks that an ended generation pins findable in the prefix cache, even after it was cleared."""
        self.tell(EngineServer.hold, number)

    def let_go(self, number: int) -> None:
        """Release the blocks that a generation pins, whether it has ended or not."""
        self.tell(EngineServer.let_go, number)

    def abandon(self, message: str) -> None:
        """End all generations with an error after which a client may continue on another server."""
        self.tell(EngineServer.abandon, message)

    def abort(self, number: int, message: str) -> None:
        """End a generation for good after its last token, with an error for its reader."""
        self.tell(EngineServer.abort, number, message)

    def load_adapter(self, name: str, folder: Path) -> Adapter:
        """Load an adapter; may take long, and is for other threads. Raises CheckpointError."""
        return self.ask_from_thread(EngineServer.load_adapter, name, folder).result()

    def figures(self) -> EngineFigures:
        """What it has counted so far, or had counted if it does not answer; may take long, and is for other threads."""
        self._last_figures = self.ask_or(self._last_figures, EngineServer.figures)
        return self._last_figures[0]

    def links(self) -> DraftLinks:
        """The links to drafts, as they were when the figures were asked for last; for any thread."""
        return self._last_figures[1]

    def sequences(self) -> Mapping[int, SequenceFigures]:
        """How far the generations are, by their numbers; may take long, and is for other threads."""
        return self.ask_or({}, EngineServer.sequences)

    def forget_cache(self) -> "Future[int]":
        """Empty the prefix cache, and return how many blocks could be found in it; for any thread."""
        return self.ask_from_thread(EngineServer.forget_cache)

    def set_log_level(self, level: str) -> None:
        """Let its process log messages of this level or above."""
        self.tell(EngineServer.set_log_level, level)

    def kill(self) -> None:
        """End the process at once; for any thread."""
        self._is_closing = True
        self._process.kill()

    def close(self) -> None:
        """End the process; streams that still have a reader end with an error. May take long, for other threads."""
        self._is_closing = True
        try:
            self.ask_from_thread(EngineServer.close).result(_LAST_SECONDS)
        except (EngineFailedError, FutureTimeoutError):  # it has ended already, or hangs
            self._process.kill()
        finally:
            self._loop.call_soon_threadsafe(self._transport.close)
            self._process.wait()

    async def ask(
        self, method: Callable[[EngineServer, *Arguments], Awaitable[Value]], *arguments: *Arguments
    ) -> Value:
        """Return what a method of the other process returns; raises its error, and EngineFailedError if it ends."""
        if self._is_gone:
            raise EngineFailedError(_DEAD)
        number = next(self._questions)
        asked = self._asked[number] = self._loop.create_future()
        self._transport.write(to_frame(pickle_call(Call(number, method, arguments))))
        value: Value = await asked
        return value

    def ask_from_thread(
        self, method: Callable[[EngineServer, *Arguments], Awaitable[Value]], *arguments: *Arguments
    ) -> "Future[Value]":
        """As `ask`; for any thread."""
        return asyncio.run_coroutine_threadsafe(self.ask(method, *arguments), self._loop)

    def ask_or(self, otherwise: Value, method: Callable[[EngineServer], Awaitable[Value]]) -> Value:
        """As `ask`, or another value if there is no answer in time; for any thread but the event loop's."""
        try:
            return self.ask_from_thread(method).result(_PATIENCE_SECONDS)
        except (EngineFailedError, FutureTimeoutError):
            return otherwise

    def tell(self, method: Callable[[EngineServer, *Arguments], None], *arguments: *Arguments) -> None:
        """Call a method of the other process, which is not waited for."""
        if not self._is_gone:
            self._transport.write(to_frame(pickle_call(Call(0, method, arguments))))

    def _report_taken(self, number: int, count: int) -> None:
        if not self._taken:
            self._loop.call_soon(self._tell_taken)
        self._taken[number] = self._taken.get(number, 0) + count

    def _tell_taken(self) -> None:
        taken, self._taken = self._taken, {}
        self.tell(EngineServer.take, taken)

    def _take_answer(self, data: bytes) -> None:
        answer = Answer(*pickle.loads(data))
        asked = self._asked.pop(answer.number)
        if asked.done():  # nobody waits any more
            return
        if answer.error is None:
            asked.set_result(answer.value)
        else:
            asked.set_exception(answer.error)

    def _take_events(self, data: bytes) -> None:
        events: list[tuple[int, Event]] = pickle.loads(data)
        for number, event in events:
            if number == THE_ENGINE:
                self._on_failure()
            elif (stream := self._streams.get(number)) is not None:
                stream.put(event)

    def _end_calls(self) -> None:
        """Take note that the process has ended."""
        self._is_gone = True
        asked, self._asked = self._asked, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(EngineFailedError(_DEAD))
        if not self._is_closing:
            self._loop.run_in_executor(None, self._log_end)
            self._on_failure()

    def _log_end(self) -> None:
        logger.error("the engine's process %s has ended by itself, with code %s", self.process_id, self._process.wait())

    def _end_streams(self) -> None:
        """End the streams of a process that has ended, after all of its events."""
        self._is_gone = True
        for stream in self._streams.values():
            stream.put(Failed(_DEAD))


def _adapter_set(adapters: Mapping[str, Adapter], engine: RemoteEngine) -> AdapterSet:
    """The adapters that requests may name; they do not keep the engine, which is freed when nothing else does."""
    find = weakref.ref(engine)

    def unload(adapter: Adapter) -> None:
        if (current := find()) is not None:
            current.tell(EngineServer.unload_adapter, adapter)

    return AdapterSet(adapters, unload)


class RemoteJournalReader:
    """The journal of an engine in another process."""

    def __init__(self, engine: RemoteEngine) -> None:
        self._engine = engine

    async def read(self, after: int, seconds: float) -> Seq[CacheBatch]:
        """Return the next batches after that number; raises EventsLostError."""
        return await self._engine.ask(EngineServer.read_journal, after, seconds)

    async def last(self) -> int:
        """Return the number of the last batch."""
        return await self._engine.ask(EngineServer.last_batch)

    async def begin_snapshot(self) -> SnapshotFacts:
        """Begin a snapshot."""
        return await self._engine.ask(EngineServer.begin_snapshot)

    async def part(self, last: int, index: int) -> Seq[Stored]:
        """Return a part of the snapshot; raises EventsLostError."""
        return await self._engine.ask(EngineServer.snapshot_part, last, index)

    def end_snapshot(self, last: int) -> None:
        """Forget a snapshot that is not read on."""
        self._engine.tell(EngineServer.end_snapshot, last)


class _CountedStream(TokenStream):
    """A stream that reports how many tokens its reader has taken, before the engine has to wait for that."""

    def __init__(self, number: int, capacity: int, report: Callable[[int, int], None], turns: ReaderTurns) -> None:
        super().__init__(capacity=capacity, on_drained=lambda: None, wake=turns.take, take_turn=turns.take)
        self._number, self._report = number, report
        self._most_unreported, self._num_unreported = max(1, capacity // 2), 0  # tokens

    def _pop(self) -> Event:
        event = super()._pop()
        self._num_unreported += num_records(event)
        if self._num_unreported >= self._most_unreported:
            self._report(self._number, self._num_unreported)
            self._num_unreported = 0
        return event
