"""ServerProcess: a target service in a process of its own, which can be killed and started again."""

import asyncio
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.e2e.harness.models import ROOT
from tests.e2e.matrix.cells import Setup
from tests.e2e.matrix.probe import Probe
from tests.e2e.matrix.target_process import serve
from tests.harness.network.free_port import free_port
from tests.harness.processes.forked_process import ForkedProcess

_START_SECONDS = 300
_POLL_SECONDS = 0.02


class ServerProcess:
    """Starts the server of one setup, always on the same port."""

    def __init__(self, setup: Setup, store: Path) -> None:
        """`store` is the folder of the references, and where the log and the probe's file go."""
        self.address = f"127.0.0.1:{free_port()}"
        self.draft_address = f"127.0.0.1:{free_port()}"
        self.logs = store / "servers" / setup.name
        self.logs.mkdir(exist_ok=True)
        self._probe_file = self.logs / "probe"
        self.probe = Probe(self._probe_file)
        self._log = self.logs / "target.log"
        self._log.write_bytes(b"")
        self._arguments = (setup, store, self._probe_file, self.address, self.draft_address)
        self._process = self._spawn()

    def __enter__(self) -> "ServerProcess":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def exit_code(self) -> int | None:
        """None while the process runs; the signal's number, negated, if one ended it."""
        return self._process.poll()

    async def wait_until_serving(self) -> None:
        """Return once the server is healthy; raises RuntimeError if it ends or takes too long."""
        async with asyncio.timeout(_START_SECONDS):
            while not await self._is_serving():
                if self.exit_code is not None:
                    raise RuntimeError(f"the server ended with {self.exit_code}: see {self._log}")
                await asyncio.sleep(_POLL_SECONDS)

    def kill_and_start_again(self) -> None:
        """Kill it by SIGKILL at any point of its work, and start a new process on the same port."""
        self._end()
        self._process = self._spawn()

    def stop(self) -> None:
        """End the process and leave its log."""
        self._end()
        self.probe.close()
        self._probe_file.unlink()

    def _spawn(self) -> ForkedProcess:
        return ForkedProcess(serve, *self._arguments, stdout=self._log, stderr=self._log, cwd=ROOT)

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    async def _is_serving(self) -> bool:
        async with grpc.aio.insecure_channel(self.address) as channel:
            try:
                answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
            except grpc.RpcError:
                return False
            return answer.status == health_pb2.HealthCheckResponse.SERVING
