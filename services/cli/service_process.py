"""ServiceProcess: a service as a child process."""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Collection
from collections.abc import Sequence as Seq
from types import TracebackType
from typing import IO, Self

_STOP_SECONDS = 60.0  # longer than any reasonable drain of a child process
_LISTENING, _SERVING = "listening on ", "serving"


def first_ended(*services: "ServiceProcess") -> "ServiceProcess":
    """Wait until one of the services has ended by itself, and return it; signals are heeded meanwhile.

    Python only notes a signal that comes just before a call that blocks, and would handle it after the call: the
    wakeup descriptor ends the call.
    """
    poll, opened = select.poll(), {os.pidfd_open(service.pid): service for service in services}
    woken, waking = socket.socketpair()
    waking.setblocking(False)
    before = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    try:
        for descriptor in (woken.fileno(), *opened):
            poll.register(descriptor, select.POLLIN)
        while not (ended := [opened[ready] for ready, _ in poll.poll() if ready in opened]):
            woken.recv(1)
        return ended[0]
    finally:
        signal.set_wakeup_fd(before)
        woken.close()
        waking.close()
        for descriptor in opened:
            os.close(descriptor)


class ServiceFailedError(RuntimeError):
    """A service ended before it served; its log says why."""


class ServiceProcess:
    """A running service. Leaving the `with` block stops it; it also ends if this process is killed."""

    def __init__(self, name: str, options: Seq[str], *, cores: Collection[int], log: IO[str] | None = None) -> None:
        """Start `outrider NAME` with these options on these cores; it logs to `log`, or by default where we do."""
        self._name = name
        # -P: do not import from the working directory, which may be another project with a `services` folder.
        command = [sys.executable, "-P", "-m", "services.cli.bound_service", name, *options]
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            process_group=0,  # so that Ctrl-C in a terminal reaches this process only, which then stops the service
        )
        os.sched_setaffinity(self._child.pid, cores)
        self.address = ""
        self._serves = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._child.pid

    def wait_until_listening(self) -> None:
        """Return once it has an address and is loading; raises ServiceFailedError if the process ends instead."""
        line = self._line()
        if not line.startswith(_LISTENING):
            raise ServiceFailedError(f"the {self._name} did not start; it ended with code {self._child.wait()}")
        self.address = line.removeprefix(_LISTENING)

    def wait_until_serving(self) -> None:
        """Return once it reports that it serves; raises ServiceFailedError if the process ends instead."""
        if not self.address:
            self.wait_until_listening()
        while not self._serves:
            if not (line := self._line()):
                raise ServiceFailedError(f"the {self._name} ended with code {self._child.wait()}")
            self._serves = line == _SERVING

    def _line(self) -> str:
        """Return the next line that it prints, "" after its end. (A health check could need client certificates.)"""
        assert self._child.stdout is not None
        return self._child.stdout.readline().strip()

    def wait(self) -> int:
        """Wait until it has ended by itself, and return its exit code."""
        if self._child.poll() is None:
            first_ended(self)
        return self._child.wait()

    def stop(self) -> None:
        """Send SIGTERM and wait; a process that does not end in time is killed."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(_STOP_SECONDS)
        finally:
            self._child.kill()
            self._child.wait()
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            self._child.stdin.close()
            self._child.stdout.close()
