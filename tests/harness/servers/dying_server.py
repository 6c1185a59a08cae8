"""DyingServer: a scripted server in a process of its own, which ends without a word at every call."""

import os
import signal
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from tests.harness.processes.forked_process import ForkedProcess
from tests.harness.servers.scripted_server import Fault, ScriptedServer, ScriptedServicer

_FLUSH_SECONDS, _POLL_SECONDS = 0.2, 0.005


class _MortalServicer(ScriptedServicer):
    def _strike(self, fault: Fault, context: grpc.ServicerContext) -> None:
        print("struck", flush=True)
        time.sleep(_FLUSH_SECONDS)  # what was written is on its way then
        os.kill(os.getpid(), signal.SIGKILL)


def _serve(fault: Fault) -> None:
    server = ScriptedServer(fault, tokens_per_chunk=1, servicer_type=_MortalServicer)
    print(server.address, flush=True)
    signal.pause()


class DyingServer:
    """Dies at its first call, where a Fault would strike."""

    def __init__(self, at: int | str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._told = Path(self._folder.name) / "told"
        fault = Fault(at=at if isinstance(at, int) else "arrival")
        self._process = ForkedProcess(_serve, fault, stdout=self._told)
        while "\n" not in self._told.read_text():
            assert self._process.poll() is None
            time.sleep(_POLL_SECONDS)
        self.address = self._told.read_text().strip()

    def has_died(self) -> bool:
        """Whether a call has reached it; ends it in any case."""
        self._end()
        return "struck" in self._told.read_text()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        self._folder.cleanup()
