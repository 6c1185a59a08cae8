"""deploy/ray: a replica that is killed in mid-stream costs no byte, and errors arrive as the target sends them."""

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from outrider import AsyncClient, InvalidArgument, NotFound
from tests.e2e.harness.draft_rig import GREEDY, PATIENCE_SECONDS, PROMPT, SAMPLED, until
from tests.e2e.harness.models import ROOT
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.network.free_port import free_port
from tests.harness.processes.cpu_time import cpu_seconds

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None,
        reason="RAY IS NOT INSTALLED (make deploy-test INSTALLS IT): NOTHING OF deploy/ray IS RUN",
    ),
]
COUNT = 200
_STARTING_SECONDS = 240


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Cluster"]:
    cluster = Cluster(tmp_path_factory.mktemp("ray") / "log")
    try:
        asyncio.run(until(cluster.is_serving, _STARTING_SECONDS))
        yield cluster
    finally:
        cluster.close()


class Cluster:
    """Ray with two replicas and a draft, in processes that end with it."""

    def __init__(self, log: Path) -> None:
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self._log = log
        settings = {"RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
        command = [sys.executable, "-m", "tests.deploy.ray_cluster", str(port)]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=os.environ | settings, stdin=subprocess.PIPE, stdout=output, stderr=output
            )

    def is_serving(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        return b"\nserving\n" in self._log.read_bytes()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()

    async def rest(self) -> dict[int, float]:
        """Return the target services once there are two that do nothing."""
        while True:
            before = self.targets()
            await asyncio.sleep(1)
            if len(before) == 2 and all(now - before.get(pid, 0) < 0.05 for pid, now in self.targets().items()):
                return self.targets()

    def targets(self) -> dict[int, float]:
        """The target services by process, and how long each has computed."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            pid = int(folder.name)
            try:
                if b"services.target" in (folder / "cmdline").read_bytes() and self._process.pid in _ancestors(pid):
                    found[pid] = cpu_seconds(pid)
            except OSError:  # it has ended meanwhile
                continue
        return found


def _parent(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))


def _ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        pid = _parent(pid)
        found.append(pid)
    return found


@pytest.mark.parametrize("options", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
async def test_a_replica_that_is_killed_in_mid_stream_costs_no_byte(cluster: Cluster, options: dict) -> None:
    async with AsyncClient(cluster.address) as client:
        alone = await client.generate(PROMPT, max_tokens=COUNT, **options)
        before = await cluster.rest()
        async with client.stream(PROMPT, max_tokens=COUNT, **options) as stream:
            num_tokens, killed = 0, 0
            async for chunk in stream:
                num_tokens += len(chunk.token_ids)
                if num_tokens >= 30 and not killed:
                    now = cluster.targets()
                    killed = max(before, key=lambda pid: now[pid] - before[pid])
                    os.kill(_parent(killed), signal.SIGKILL)  # the replica; its service ends with it
    await until(lambda: killed not in cluster.targets())
    assert stream.result.resumed >= 1
    assert (stream.result.token_ids, stream.result.text) == (alone.token_ids, alone.text)
    assert stream.result.finish_reason == alone.finish_reason


async def test_errors_of_a_request_arrive_whole(cluster: Cluster) -> None:
    async with AsyncClient(cluster.address) as client:
        with pytest.raises(InvalidArgument) as streamed:
            await client.generate(PROMPT, temperature=-1.0)
        with pytest.raises(InvalidArgument) as unary:
            await client.tokenize("x" * (1 << 20))
    assert [violation.field for violation in streamed.value.violations] == ["sampling.temperature"]
    assert [violation.field for violation in unary.value.violations] == ["text"]


async def test_the_other_calls(cluster: Cluster) -> None:
    async with AsyncClient(cluster.address) as client:
        encoding = await client.tokenize(PROMPT)
        assert (await client.detokenize(encoding.token_ids)).text == PROMPT
        assert (await client.model_info()).name == "target"
        assert [model.name for model in await client.list_models()] == ["target"]
        assert len((await client.score(PROMPT, [PROMPT, "\x00"])).scores) == 2
        assert len((await client.embed([PROMPT])).embeddings) == 1


async def test_sessions_are_those_of_one_replica(cluster: Cluster) -> None:
    async with AsyncClient(cluster.address) as client:
        session = await client.create_session(PROMPT, name="held")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (found := await client.list_sessions()):
                pass  # it was the other replica's turn
        assert [each.name for each in found] == [session.name] == ["held"]
        with pytest.raises(NotFound):  # once it is deleted, or at the other replica
            await delete_again_and_again(client, "held")


async def delete_again_and_again(client: AsyncClient, name: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            await client.delete_session(name)


async def test_a_gateway_in_front_gives_the_same_text(cluster: Cluster) -> None:
    with RunningGateway(cluster.address) as gateway:
        async with httpx2.AsyncClient(base_url=gateway.url, timeout=60) as http:
            (model,) = (await http.get("/v1/models")).json()["data"]
            asked = {"model": model["id"], "prompt": PROMPT, "seed": 5, "max_tokens": 24}
            completed = (await http.post("/v1/completions", json=asked)).json()["choices"][0]["text"]
            lines = [
                line async for line in (await http.post("/v1/completions", json=asked | {"stream": True})).aiter_lines()
            ]
            vectors = (await http.post("/v1/embeddings", json={"model": model["id"], "input": PROMPT})).json()["data"]
    parts = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    streamed = "".join(choice["text"] for part in parts for choice in part["choices"])
    async with AsyncClient(cluster.address) as client:
        assert completed == streamed == (await client.generate(PROMPT, seed=5, max_tokens=24)).text
    assert len(vectors) == 1
