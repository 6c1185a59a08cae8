"""GrammarProcess: tries grammars out where they can do no harm, and compiles those that pass."""

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

from services.engine.grammar.caller_limit import CallerLimit
from services.engine.grammar.compiler import GrammarCompiler, GrammarError
from services.engine.grammar.grammar import Grammar
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
    """Owns the process that grammars are tried in, which `start` starts, and anew where it has ended.

    The library that compiles them can be made to overflow its stack, or to take memory without bound, by a few lines.
    So each is compiled once in a fork of that process, which ends with the call that wants it, or where it takes too
    much. What passes there is compiled again here, on a thread, where it takes no more than it took there.
    """

    def __init__(self, tokenizer: Tokenizer, compiler: GrammarCompiler, *, vocab_size: int) -> None:
        """`compiler` is of the same vocabulary."""
        self._vocabulary = (tokenizer, vocab_size)
        self._compiler = compiler
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, "grammar")
        self._limit = CallerLimit(_MOST_AT_ONCE)
        self._passed: dict[bytes, None] = {}  # trials, by their digests, the oldest first
        self._starting = threading.Lock()
        self._spawning, self._is_closed = threading.Lock(), False
        self._process: subprocess.Popen[bytes] | None = None
        self._worker: Connection | None = None

    async def compile(
        self, source: GrammarSource, caller: str, *, looks_ahead: bool = True, num_states: int = 1
    ) -> Grammar:
        """Compile a grammar, one of each caller at a time; raises GrammarError, for one that takes too much as well."""
        async with self._limit.take(caller):
            trial = GrammarTrial(source, num_states, looks_ahead)
            if trial.digest() not in self._passed:
                if fault := await self._try_out(trial):
                    raise GrammarError(fault)
                self._passed[trial.digest()] = None
                while len(self._passed) > _MOST_KNOWN:
                    del self._passed[next(iter(self._passed))]
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._compile, trial)

    def _compile(self, trial: GrammarTrial) -> Grammar:
        return self._compiler.compile_again(trial.source, looks_ahead=trial.looks_ahead, num_states=trial.num_states)

    async def _try_out(self, trial: GrammarTrial) -> str:
        """What is wrong with a grammar; empty where nothing is."""
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
        """Have it started by a thread; whoever wants a grammar meanwhile waits for it."""
        self._threads.submit(self.start)

    def start(self) -> None:
        """Start the process, if there is none; takes as long as loading the vocabulary."""
        with self._starting:
            if self._process is not None and self._process.poll() is None:
                return
            self._worker, theirs = multiprocessing.Pipe()
            with theirs:
                command = worker_command(_WORKER, theirs.fileno())
                # A session of its own: Ctrl-C in a terminal is for the service.
                with self._spawning:
                    if self._is_closed:
                        return
                    self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
            self._worker.send(self._vocabulary)
            self._worker.recv_bytes()

    def _open_trial(self) -> Connection:
        """A connection to a fork that waits for its trial, and has said its process id."""
        self.start()
        assert self._worker is not None
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            send_handle(self._worker, theirs.fileno(), None)
        return ours

    def close(self) -> None:
        """End the process, and its forks."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._spawning:  # or what `begin` is just about to start would be left running
            self._is_closed = True
        if self._process is not None and self._worker is not None:
            self._worker.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@contextlib.asynccontextmanager
async def _fork(connection: Connection) -> AsyncIterator[None]:
    """The fork at the other end of a connection, ended with the context, however it ends."""
    await _readable(connection)
    process = os.pidfd_open(int(connection.recv_bytes()))  # it waits for its trial, so the number is still its own
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        os.close(process)


async def _readable(connection: Connection) -> None:
    """Return once something can be read, or the other end is gone."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection.fileno(), event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(connection.fileno())
