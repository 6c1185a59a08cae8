"""WorkerProcess: runs risky work, which may take too long or too much memory, in a process of its own.

This module has both ends. They exchange JSON; each message follows its length in 8 bytes, little-endian. The worker is
started without forking a process with threads, and the size of its answers is limited.
"""

import json
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

_LENGTH = struct.Struct("<Q")
_OUT_OF_MEMORY = 3  # the worker's exit code
_MIB = 1 << 20


def worker_command(module: str, *arguments: int) -> list[str]:
    """Return the command of a process that calls a module's `main`.

    It has our module search path, without adding the working directory, which may be untrusted.
    """
    call = f"main({', '.join(map(repr, arguments))})"
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {sys.path!r}; from {module} import main; {call}"]


def start_part(module: str, *descriptors: int) -> subprocess.Popen[bytes]:
    """Start a process of this service, which gets these descriptors and calls the module's `main` with them.

    It has a session of its own, so that Ctrl-C in a terminal reaches only the service.
    """
    command = worker_command(module, *descriptors)
    return subprocess.Popen(command, pass_fds=descriptors, start_new_session=True, stdin=subprocess.DEVNULL)


class WorkerError(RuntimeError):
    """There is no answer: the worker exceeded a limit, or died; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """The limits of one answer."""

    cpu_seconds: float
    seconds: float  # of wall-clock time: on a busy machine the worker may have to wait for a core
    memory: int  # bytes of the worker's address space
    answer_bytes: int


class WorkerProcess:
    """A worker that is started at once, answers one call at a time, and is restarted after it died.

    Safe to share between threads. The process ends with this object, and with the process that made it.
    """

    def __init__(self, module: str, setup: object, limits: WorkerLimits) -> None:
        """`module` must have a `main` that calls `serve`, which gets `setup`, a JSON value, before the first call."""
        self._module = module
        self._setup = setup
        self._limits = limits
        self._lock = threading.Lock()
        self._start()

    def call(self, question: object) -> object:
        """Return the answer to a JSON value; raises WorkerError."""
        with self._lock:
            try:
                return self._exchange(question)
            except WorkerError:
                self._end()
                self._start()
                raise

    def interrupt(self) -> None:
        """Kill the worker during a call, which then raises WorkerError; must only be called while a call runs."""
        self._child.kill()

    def _start(self) -> None:
        self._child = subprocess.Popen(
            worker_command(self._module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal must not reach it
        )
        self._end = weakref.finalize(self, _end, self._child)
        self._is_set_up = False

    def _exchange(self, question: object) -> object:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        clock = threading.Timer(self._limits.seconds, self._child.kill)
        clock.start()
        try:
            if not self._is_set_up:
                limits = self._limits
                _send(self._child.stdin, [limits.memory, limits.cpu_seconds, limits.answer_bytes, self._setup])
                self._is_set_up = True
            _send(self._child.stdin, question)
            answer = _receive(self._child.stdout, self._limits.answer_bytes)
            if answer is None:
                raise WorkerError(_last_words(self._child.wait(), self._limits))
            return answer
        except (OSError, ValueError, RecursionError) as error:
            raise WorkerError(f"it gave no answer that can be read: {error}") from error
        finally:
            clock.cancel()


def serve(make: Callable[[Any], Callable[[Any], object]]) -> None:
    """Run the worker: answer the questions on standard input until it ends; `make` turns the setup into an answerer."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    match _receive(source):
        case [int(memory), float(cpu_seconds), int(answer_bytes), setup]:
            pass
        case _:
            return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # it kills the process even in native code
    answer = None
    try:
        while (question := _receive(source)) is not None:
            signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
            answer = answer or make(setup)
            text = _encode(answer(question))
            signal.setitimer(signal.ITIMER_PROF, 0)
            if len(text) > answer_bytes:
                raise MemoryError
            _write(sink, text)
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)


def _last_words(code: int, limits: WorkerLimits) -> str:
    if code == -signal.SIGPROF:
        return f"it takes more than {limits.cpu_seconds:g} s"
    if code == -signal.SIGKILL:
        return f"it was ended, after {limits.seconds:g} s at the latest"
    if code == _OUT_OF_MEMORY:
        return f"it takes more than {limits.memory // _MIB} MiB, or gives more than {limits.answer_bytes // _MIB} MiB"
    return f"it died, with code {code}"


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:  # the worker has not read all of its question
                continue


def _send(pipe: IO[bytes], message: object) -> None:
    _write(pipe, _encode(message))


def _encode(message: object) -> bytes:
    """Encode JSON without escapes, which would be slow to write and to read."""
    return json.dumps(message, ensure_ascii=False).encode(errors="surrogatepass")


def _write(pipe: IO[bytes], text: bytes) -> None:
    pipe.write(_LENGTH.pack(len(text)))
    pipe.write(text)
    pipe.flush()


def _receive(pipe: IO[bytes], most_bytes: int | None = None) -> object:
    """Return the next message, None at the end; raises ValueError for one that is too large or not JSON."""
    prefix = pipe.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(prefix)
    if most_bytes is not None and size > most_bytes:
        raise ValueError(f"{size} bytes, but at most {most_bytes} may come")
    text = pipe.read(size)
    return json.loads(text) if len(text) == size else None
