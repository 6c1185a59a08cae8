"""GrammarProcess: tries grammars in a sandboxed process, so that only those that pass are compiled in a service."""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from weakref import WeakValueDictionary

from services.engine.grammar.compiler import GrammarError
from services.engine.grammar.source import GrammarSource
from services.engine.grammar.trial import MAX_MEMORY, MAX_SECONDS, MAX_STACK, MAX_WAIT, GrammarTrial
from services.engine.text.tokenizer import Tokenizer
from services.engine.worker_process import worker_command

logger = logging.getLogger(__name__)

_WORKER = "services.engine.grammar.worker"
_MOST_AT_ONCE = 2
_MOST_KNOWN = 4096
_TOO_MUCH = f"compiling it takes more than {MAX_SECONDS:g} s, {MAX_MEMORY >> 20} MB or {MAX_STACK >> 10} kB of stack"


class GrammarProcess:
    """Owns the process in which grammars are tried; `start` starts it, and restarts it if it has ended.

    A grammar of a few lines can make the compiling library overflow its stack or allocate unbounded memory. So each
    grammar is first compiled in a fork of that process, which ends with the call, on its cancellation, or when it
    exceeds a limit. A grammar that passes can be compiled again where it is used, and takes no more than it took there.
    """

    def __init__(self, tokenizer: Tokenizer, *, vocab_size: int) -> None:
        self._vocabulary = (tokenizer, vocab_size)
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, "grammar")
        self._limit = CallerLimit(_MOST_AT_ONCE)
        self._passed: dict[bytes, None] = {}  # trials, by their digests, the oldest first
        self._starting = threading.Lock()
        self._spawning, self._is_closed = threading.Lock(), False
        self._process: subprocess.Popen[bytes] | None = None
        self._worker: Connection | None = None

    async def try_out(
        self, source: GrammarSource, caller: str, *, looks_ahead: bool = True, num_states: int = 1
    ) -> GrammarTrial:
        """Try a grammar, one of each caller at a time; raises GrammarError for a bad one or one over the limits.

        What it returns can be given to `GrammarCompiler.compile_again`.
        """
        async with self._limit.take(caller):
            trial = GrammarTrial(source, num_states, looks_ahead)
            if trial.digest() not in self._passed:
                if fault := await self._fault(trial):
                    raise GrammarError(fault)
                self._passed[trial.digest()] = None
                while len(self._passed) > _MOST_KNOWN:
                    del self._passed[next(iter(self._passed))]
            return trial

    async def _fault(self, trial: GrammarTrial) -> str:
        """Return what is wrong with a grammar; "" if nothing is."""
        connection = await asyncio.get_running_loop().run_in_executor(self._threads, self._open_trial)
        with connection:
            try:
                async with asyncio.timeout(MAX_WAIT), _fork(connection):
                    connection.send(trial)
                    await _readable(connection)
                    return connection.recv_bytes().decode()
            except (TimeoutError, EOFError, OSError):
                return _TOO_MUCH

    def begin(self) -> None:
        """Start the process on a thread; calls of `try_out` wait for it meanwhile."""
        self._threads.submit(self.start)

    def start(self) -> None:
        """Start the process, if it does not run; takes as long as loading the vocabulary."""
        with self._starting:
            if self._process is not None and self._process.poll() is None:
                return
            self._worker, theirs = multiprocessing.Pipe()
            with theirs:
                command = worker_command(_WORKER, theirs.fileno())
                # In a session of its own, so that Ctrl-C in a terminal reaches only the service.
                with self._spawning:
                    if self._is_closed:
                        return
                    self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
            self._worker.send(self._vocabulary)
            self._worker.recv_bytes()

    def _open_trial(self) -> Connection:
        """Return a connection to a new fork, which sends its process id and then waits for its trial."""
        self.start()
        assert self._worker is not None
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            send_handle(self._worker, theirs.fileno(), None)
        return ours

    def close(self) -> None:
        """Kill the process and its forks."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._spawning:  # `begin` may just be starting the process
            self._is_closed = True
        if self._process is not None and self._worker is not None:
            self._worker.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@contextlib.asynccontextmanager
async def _fork(connection: Connection) -> AsyncIterator[None]:
    """Kill the fork at the other end of a connection when the context ends, in any way."""
    await _readable(connection)
    process = os.pidfd_open(int(connection.recv_bytes()))  # it still waits for its trial, so the id is not reused
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        os.close(process)


async def _readable(connection: Connection) -> None:
    """Wait until something can be read or the other end is closed."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection.fileno(), event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(connection.fileno())


class CallerLimit:
    """A caller waits until its earlier turn has ended, and then for one of the places of all callers."""

    def __init__(self, most_at_once: int) -> None:
        self._places = asyncio.Semaphore(most_at_once)
        self._callers: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # callers that are in `take`

    @contextlib.asynccontextmanager
    async def take(self, caller: str) -> AsyncIterator[None]:
        """Wait for a caller's turn, and hold it for as long as the context lasts."""
        lock = self._callers.setdefault(caller, asyncio.Lock())
        async with lock, self._places:
            yield
