"""Waiting for a service: a signal ends it at every moment, also one that does not interrupt the call that waits."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from services.cli.service_process import first_ended

_PATIENCE_SECONDS = 60.0


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for the end of its input."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def heeded() -> Iterator[None]:
    """Ctrl-C raises here, as it does in a command, and the main thread itself is not interrupted by it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded")
def test_a_signal_that_interrupts_no_call_ends_the_wait(child: subprocess.Popen[bytes]) -> None:
    """As one does that comes just before the call: Python has noted it, and nothing wakes the main thread."""
    is_over = threading.Event()

    def interrupt() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        time.sleep(0.2)  # so long that the main thread waits by then; otherwise less is shown
        os.kill(os.getpid(), signal.SIGINT)
        if not is_over.wait(_PATIENCE_SECONDS):
            child.kill()

    taker = threading.Thread(target=interrupt)

    def wait() -> None:
        taker.start()
        first_ended(SimpleNamespace(pid=child.pid))  # type: ignore[arg-type]

    try:
        with pytest.raises(KeyboardInterrupt):
            wait()
        assert child.poll() is None
    finally:
        is_over.set()
        taker.join()


def test_the_service_that_has_ended_is_returned(child: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as other:
        services = [SimpleNamespace(pid=process.pid) for process in (child, other)]
        assert first_ended(*services) is services[1]  # type: ignore[arg-type]
