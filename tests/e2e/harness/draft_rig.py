"""Parts of the tests of a drafted target: the services' processes, and streams compared with the same ones alone."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from outrider import AsyncClient, Result, Token
from outrider.v1 import admin_pb2
from outrider.v1.admin_pb2_grpc import AdminServiceStub
from tests.e2e.harness.block_gauge import BlockGauge
from tests.e2e.harness.link_proxy import LinkProxy
from tests.e2e.harness.models import ROOT
from tests.e2e.harness.monitored_service import run
from tests.harness.network.free_port import free_port
from tests.harness.processes.child_processes import child_processes
from tests.harness.processes.cpu_time import cpu_seconds
from tests.harness.processes.forked_process import ForkedProcess

PATIENCE_SECONDS = 300  # which only a fault can take, on however busy a machine
_POLL_SECONDS = 0.01

Options = dict[str, Any]
Action = Callable[[], Awaitable[None]]

PROMPT = 'class Stack:\n    """A last-in, first-out stack."""\n\n    def __init__(self):\n        self._items = []\n\n'
GREEDY: Options = {"temperature": 0.0, "seed": 7, "ignore_eos": True, "top_candidates": 2}
SAMPLED: Options = {**GREEDY, "temperature": 0.7}
READS_LITTLE = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1024))  # of a client, ahead of its caller
READ_AHEAD = 40  # tokens that may be generated before it shows that their reader has paused


class Service:
    """`outrider NAME` in a process of its own, on one port, and what it logs; it ends when the test does."""

    def __init__(
        self,
        name: str,
        model: Path,
        logs: Path,
        *options: str,
        address: str | None = None,
        wrapper: Seq[str] = (),
        fronts: int = 0,
    ) -> None:
        """`wrapper` is what the command is started by; with `fronts` a target consists of several processes."""
        self.address = address or f"127.0.0.1:{free_port()}"
        self.name = name
        self._log = logs / f"{name}.log"
        self._gauge = BlockGauge(logs / f"{name}.blocks")
        self._wrapper = wrapper
        self._admin_address = f"127.0.0.1:{free_port()}" if fronts else None  # the gauge sees one process only
        administered = ["--admin-listen", self._admin_address] if self._admin_address else []
        processes = ["--fronts", str(fronts), *administered] if name == "target" else []
        self._arguments = [
            name,
            "--model",
            str(model),
            "--listen",
            self.address,
            "--threads",
            "1",
            *processes,
            *options,
        ]
        self._process: ForkedProcess | subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; it adds to the log of those before it."""
        self._process = self._wrapped() if self._wrapper else self._forked()

    def _forked(self) -> ForkedProcess:
        return ForkedProcess(run, self._gauge.path, self._arguments, stderr=self._log, cwd=ROOT)

    def _wrapped(self) -> subprocess.Popen[bytes]:
        command = [*self._wrapper, sys.executable, "-m", run.__module__, str(self._gauge.path), *self._arguments]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log)

    def kill(self) -> None:
        """Kill it by SIGKILL at any point of its work; nothing if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if isinstance(self._process, subprocess.Popen) and self._process.stdin is not None:
                self._process.stdin.close()
            self._process = None
            self._gauge.reset()

    def terminate(self, seconds: float) -> int:
        """SIGTERM, and the exit code; raises TimeoutExpired."""
        self._running.terminate()
        return self._running.wait(seconds)

    def pause(self) -> None:
        """Stop its process by SIGSTOP."""
        self._running.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let its process run again by SIGCONT."""
        self._running.send_signal(signal.SIGCONT)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._running.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended by itself."""
        return self._process is not None and self._process.poll() is None

    @property
    def virtual_bytes(self) -> int:
        """Memory that its own process has mapped."""
        return _status(self._running.pid, "VmSize:")

    @property
    def resident_bytes(self) -> int:
        """Memory that its processes hold."""
        return sum(_status(pid, "VmRSS:") for pid in self._processes)

    @property
    def peak_bytes(self) -> int:
        """The most memory that its own process has held."""
        return _status(self._running.pid, "VmHWM:")

    @property
    def num_threads(self) -> int:
        """Threads that it has."""
        return len([*Path(f"/proc/{self._running.pid}/task").iterdir()])

    @property
    def num_descriptors(self) -> int:
        """Files, sockets and the like that it has open."""
        return len([*Path(f"/proc/{self._running.pid}/fd").iterdir()])

    @property
    def cpu_seconds(self) -> float:
        """How long its processes have computed."""
        return sum(cpu_seconds(pid) for pid in self._processes)

    @property
    def num_used_blocks(self) -> int:
        """KV blocks that its sequences hold; raises RpcError where several processes do not answer."""
        if self._admin_address is None:
            return self._gauge.num_used
        with grpc.insecure_channel(self._admin_address) as channel:
            asked = admin_pb2.GetStatisticsRequest()
            cache = AdminServiceStub(channel).GetStatistics(asked, timeout=PATIENCE_SECONDS).cache
        return int(cache.total_blocks - cache.free_blocks)

    @property
    def fronts(self) -> list[int]:
        """The processes that have its connections, if there are several."""
        return child_processes(self._running.pid, "services.target.fronts.front")

    @property
    def engines(self) -> list[int]:
        """The processes in which its models compute, if they are others than its own."""
        return child_processes(self._running.pid, "services.target.engines.engine_server")

    @property
    def _processes(self) -> list[int]:
        return [self._running.pid, *self.fronts, *self.engines]

    @property
    def log_size(self) -> int:
        """Where the log ends now, to search what comes later."""
        return self._log.stat().st_size

    def log(self, since: int = 0) -> str:
        """What it has logged, from a place in the log on."""
        return self._log.read_bytes()[since:].decode(errors="replace")  # gRPC logs bytes of its callers

    async def logs(self, text: str, since: int = 0, *, otherwise: str | None = None) -> None:
        """Return once it has logged this, or what may come in its place; raises TimeoutError."""
        texts = [text] if otherwise is None else [text, otherwise]

        def has_logged() -> bool:
            assert self._running.poll() is None, self.log(since)
            return any(each in self.log(since) for each in texts)

        await until(has_logged)

    @property
    def _running(self) -> ForkedProcess | subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process


def _status(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    told = (int(line.split()[1]) for line in status.splitlines() if line.startswith(name))
    return 1024 * next(told, 0)  # one that is just ending has no memory any more


MakeDraft = Callable[..., Service]


@contextmanager
def serving(targets: Seq[Service]) -> Iterator[None]:
    """Targets that all serve, and are killed in the end."""
    for target in targets:
        target.start()
    try:
        for target in targets:
            asyncio.run(target.logs("serving target"))
        yield
    finally:
        for target in targets:
            target.kill()


class DraftedTarget:
    """The demo target with one draft address, and its answers to requests that forbid a draft."""

    LINKED, UNLINKED = "is there: ", "is not there: "

    def __init__(self, service: Service, draft_address: str, alone: dict[str, Result] | None = None) -> None:
        """`alone` has the known answers to requests that forbid a draft, whatever the address."""
        self.service = service
        self.draft_address = draft_address
        self._alone: dict[str, Result] = {} if alone is None else alone

    def connect(self) -> AsyncClient:
        """A client that sees every failure, and that reads little ahead of its caller."""
        return AsyncClient(self.service.address, max_retries=0, channel_arguments=READS_LITTLE)

    async def start_draft(self, draft: Service) -> None:
        """Return once the target is linked with it."""
        since = self.service.log_size
        draft.start()
        await self.service.logs(self.LINKED, since)

    async def kill_draft(self, draft: Service) -> None:
        """Return once the target has noticed."""
        since = self.service.log_size
        draft.kill()
        await self.service.logs(self.UNLINKED, since)

    @asynccontextmanager
    async def linked_through_proxy(self, draft: Service, *, delay: float = 0.0) -> AsyncIterator[LinkProxy]:
        """Link with a draft at another address; the proxy stands where the target looks for it."""
        since = self.service.log_size
        draft.start()
        await draft.logs("drafting with")
        async with LinkProxy(self.draft_address, draft.address, delay=delay) as proxy:
            await self.service.logs(self.LINKED, since)
            yield proxy

    async def generate(self, options: Options, at: Mapping[int, Action] | None = None, prompt: str = PROMPT) -> Result:
        """A stream with predictions, which must equal the one without; `at` so many tokens, act before reading on."""
        alone = await self._generate_alone(prompt, options)
        async with self.connect() as client:
            result = await _read(client, prompt, {"speculation": "always", "num_predictions": 4, **options}, at or {})
        assert_same(result, alone)
        return result

    async def _generate_alone(self, prompt: str, options: Options) -> Result:
        options = {**options, "speculation": "never"}
        options.pop("num_predictions", None)
        key = repr((prompt, sorted(options.items())))
        if key not in self._alone:
            async with self.connect() as client:
                self._alone[key] = await client.generate(prompt, timeout=PATIENCE_SECONDS, **options)
        assert self._alone[key].speculation.predicted == 0
        return self._alone[key]


async def _read(client: AsyncClient, prompt: str, options: Options, at: Mapping[int, Action]) -> Result:
    planned = sorted(at.items())
    num_tokens = 0
    async with client.stream(prompt, timeout=PATIENCE_SECONDS, **options) as stream:
        async for chunk in stream:
            num_tokens += len(chunk.token_ids)
            while planned and num_tokens >= planned[0][0]:
                await planned.pop(0)[1]()
        assert not planned
        return stream.result


async def until(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Return once it holds; raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(_POLL_SECONDS)


def assert_same(result: Result, alone: Result) -> None:
    """All that a client may rely on: ids, bits of log-probabilities, text, and why it ended."""
    assert result.token_ids == alone.token_ids
    assert [unpredicted(token) for token in result.tokens] == [unpredicted(token) for token in alone.tokens]
    assert result.text == alone.text
    assert result.finish_reason == alone.finish_reason
    assert (result.stop_string, result.stop_token_id) == (alone.stop_string, alone.stop_token_id)
    assert result.usage.completion_tokens == alone.usage.completion_tokens
    assert result.resumed == 0


def assert_counts(*results: Result) -> None:
    """There were predictions, right ones and wrong ones, without which the equality would mean nothing."""
    figures = [result.speculation for result in results]
    num_predicted, num_accepted = (
        sum(each) for each in zip(*((f.predicted, f.accepted) for f in figures), strict=True)
    )
    assert 0 < num_accepted < num_predicted
    assert {each.no_speculation_reason for each in figures} == {None}


def accepted_behind(result: Result, num_tokens: int) -> int:
    """Accepted predictions after the first tokens."""
    return sum(token.predicted for token in result.tokens[num_tokens:])


def unpredicted(token: Token) -> Token:
    """The parts of a token's record that no prediction may change."""
    return replace(token, predicted=False, prediction_source=None)
