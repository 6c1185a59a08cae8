"""DyingServer: a scripted server in a process of its own, which ends without a word at every call."""

import os
import signal
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

import grpc

from tests.e2e.harness.models import ROOT
from tests.harness.servers.scripted_server import Fault, ScriptedServer, ScriptedServicer

_FLUSH_SECONDS = 0.2


class _MortalServicer(ScriptedServicer):
    def _strike(self, fault: Fault, context: grpc.ServicerContext) -> None:
        print("struck", flush=True)
        time.sleep(_FLUSH_SECONDS)  # what was written is on its way then
        os.kill(os.getpid(), signal.SIGKILL)


class DyingServer:
    """Dies at its first call, where a Fault would strike."""

    def __init__(self, at: int | str) -> None:
        command = [sys.executable, "-m", "tests.harness.servers.dying_server", str(at)]
        paths = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
        self._process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def has_died(self) -> bool:
        """Whether a call has reached it; ends it in any case."""
        assert self._process.stdout is not None
        self._process.kill()
        return "struck" in self._process.stdout.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


if __name__ == "__main__":
    at = sys.argv[1]
    server = ScriptedServer(
        Fault(at=int(at) if at.isdigit() else "arrival"), tokens_per_chunk=1, servicer_type=_MortalServicer
    )
    print(server.address, flush=True)
    signal.pause()
