"""The grammar worker: a process that tries grammars, each in a fork of its own, which may crash.

A process that forks must not have threads, so this is a program of its own, which imports neither gRPC nor the decoder.
"""

import contextlib
import gc
import os
import random
import resource
import signal
import sys
import time
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from pathlib import Path

import numpy as np

from services.engine.grammar.bounds import check_bounds
from services.engine.grammar.compiler import GrammarCompiler, GrammarError
from services.engine.grammar.grammar import Grammar
from services.engine.grammar.trial import MAX_HELD, MAX_MEMORY, MAX_SECONDS, MAX_STACK, MAX_WAIT, GrammarTrial

_MAX_MASK_SECONDS = 0.02
_NUM_WALKS, _WALK_LENGTH = 2, 256
_WALK_SECONDS = 0.25


def main(descriptor: int) -> None:
    """Serve the service at the other end of an open socket until it closes the socket.

    The service sends the tokenizer and the size of the vocabulary, then a connection for each trial. On that, the fork
    sends its process id, receives the GrammarTrial, and sends what is wrong with it, or "".
    """
    connection = Connection(descriptor)
    try:
        tokenizer, vocab_size = connection.recv()
    except (EOFError, OSError):  # the service was killed before it had sent all
        return
    compiler = GrammarCompiler(tokenizer, vocab_size=vocab_size)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the forks leave no zombies
    with contextlib.suppress(EOFError, ConnectionError):  # as soon as the service is gone
        connection.send_bytes(b"")
        _fork_for_trials(connection, compiler)


def _fork_for_trials(connection: Connection, compiler: GrammarCompiler) -> None:
    """Answer each connection for a trial in a fork; raises EOFError or ConnectionError at the end."""
    while True:
        with Connection(recv_handle(connection)) as theirs:
            if os.fork() == 0:
                connection.close()
                _answer(theirs, compiler)


def _answer(connection: Connection, compiler: GrammarCompiler) -> None:
    """Try one grammar, and end the process."""
    try:
        connection.send_bytes(str(os.getpid()).encode())
        trial: GrammarTrial = connection.recv()
        _limit_resources()
        connection.send_bytes(_fault(trial, compiler).encode())
    finally:
        os._exit(0)


def _limit_resources() -> None:
    """Make the system end this process if it exceeds a limit, or after the time that the service waits."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, sys.stderr.fileno())
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, MAX_WAIT + 1)
    most, _ = _memory()
    resource.setrlimit(resource.RLIMIT_AS, (most + MAX_MEMORY, most + MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_STACK, (MAX_STACK, MAX_STACK))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _memory() -> tuple[int, int]:
    """Return the bytes of this process's address space, and those resident in memory."""
    size, resident, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return size * resource.getpagesize(), resident * resource.getpagesize()


def _fault(trial: GrammarTrial, compiler: GrammarCompiler) -> str:
    """Return what is wrong with a grammar; "" if nothing is."""
    _, used = _memory()
    try:
        check_bounds(trial.source)
        grammar = _compiled(trial, compiler)
    except (GrammarError, ValueError) as error:
        return str(error)
    if (held := _memory()[1] - used) > MAX_HELD:
        return f"it holds {held >> 20} MB of memory; at most {MAX_HELD >> 20} MB are allowed"
    slowest = _slowest_mask(grammar)
    if slowest > _MAX_MASK_SECONDS:  # measured again before it is refused: the machine may have been busy
        slowest = min(slowest, _slowest_mask(_compiled(trial, compiler)))
    if slowest > _MAX_MASK_SECONDS:
        return f"making a mask takes {slowest:.3f} s; at most {_MAX_MASK_SECONDS} s are allowed"
    return ""


def _compiled(trial: GrammarTrial, compiler: GrammarCompiler) -> Grammar:
    return compiler.compile(trial.source, num_states=trial.num_states, looks_ahead=trial.looks_ahead)


def _slowest_mask(grammar: Grammar) -> float:
    """Return the most CPU seconds of a mask along a few random texts; `grammar` must not have been used before."""
    slowest, end = 0.0, time.monotonic() + _WALK_SECONDS
    for seed in range(_NUM_WALKS):
        if seed and time.monotonic() > end:
            break
        state, chance = grammar.begin(stop_ids=()), random.Random(seed)
        for _ in range(_WALK_LENGTH):
            began = time.process_time()
            (mask,) = state.masks()
            slowest = max(slowest, time.process_time() - began)
            token_ids = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
            if not len(token_ids) or time.monotonic() > end:
                break
            state.advance([int(chance.choice(token_ids))])
    return slowest
