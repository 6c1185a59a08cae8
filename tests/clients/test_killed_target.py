"""A target that is killed under the clients of all languages at once, and the same bytes from another one."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider import Client, Result
from outrider.v1.admin_pb2 import GetMetricsRequest
from outrider.v1.admin_pb2_grpc import AdminServiceStub
from tests.clients.conftest import SECONDS, CommandOf
from tests.clients.records import float_bits, logprobs
from tests.clients.toolchains import RESUMING
from tests.e2e.harness.draft_rig import PROMPT, Service, serving
from tests.e2e.harness.models import DEMO_TARGET
from tests.harness.network.cutting_proxy import CuttingProxy
from tests.harness.servers.server import wait_until

PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
PART_BYTES = 4096  # a few tokens with their records; the whole answer is several times as long
OPTIONS = {"max_tokens": 400, "temperature": 0.9, "seed": 2**64 - 3}


@pytest.fixture
def targets(tmp_path: Path) -> Iterator[list[Service]]:
    """Two targets in processes of their own, which are never far ahead of their readers."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    options = ("--stream-capacity", "8", "--no-lookup")
    services = [
        Service("target", DEMO_TARGET, folder, *options, "--admin-listen", f"unix:{folder}/admin") for folder in folders
    ]
    with serving(services):
        yield services


@pytest.fixture
def commands(command_of: CommandOf) -> dict[str, list[str]]:
    """What starts the clients that can be built here."""
    found = {}
    for language in RESUMING:
        try:
            found[language] = command_of(language)
        except pytest.skip.Exception:  # which test_resume tells
            continue
    if not found:
        pytest.skip(
            "no client that resumes can be built here, so none is TESTED; `make client-deps` installs the tools"
        )
    return found


def test_the_bytes_ids_and_logprobs_are_the_same(
    targets: list[Service], commands: dict[str, list[str]], tmp_path: Path
) -> None:
    first, second = targets
    with Client(second.address) as client:
        alone = client.generate(PROMPT, logprobs=True, **OPTIONS)
    with ExitStack() as running, ExitStack() as cut:
        port = int(first.address.rpartition(":")[2])
        proxies = [cut.enter_context(CuttingProxy(port, max_bytes=PART_BYTES)) for _ in commands]
        clients = {
            language: running.enter_context(start([*command, *options_for(proxy, second, tmp_path / language)]))
            for (language, command), proxy in zip(commands.items(), proxies, strict=True)
        }
        begun = {language: client.stdout.read(1) for language, client in clients.items() if client.stdout}
        first.kill()
        cut.close()
        for language, client in clients.items():
            rest, figures = client.communicate(timeout=SECONDS)
            assert client.returncode == 0, figures
            check(alone, (begun[language] + rest).decode(), tmp_path / language)
    wait_until(lambda: num_streams(tmp_path / "second" / "admin") == 1 + len(clients))  # the one alone, and all resumed


def num_streams(admin: Path) -> int:
    """The streams that a target has ended; it may hear no more of one whose client has read all and left."""
    with grpc.insecure_channel(f"unix:{admin}") as channel:
        page = AdminServiceStub(channel).GetMetrics(GetMetricsRequest()).page
    counted = r'^outrider:calls_total\{code="(?:OK|CANCELLED)",method="StreamGenerate"\} (\S+)$'
    return sum(int(float(count)) for count in re.findall(counted, page, re.MULTILINE))


def options_for(proxy: CuttingProxy, further: Service, records: Path) -> list[str]:
    """Options of a client: the first address, the next one, and the file for its records."""
    return [f"--address={proxy.address}", f"--address={further.address}", f"--logprobs={records}"]


@contextmanager
def start(command: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in OPTIONS.items()]
    with subprocess.Popen([*command, *options, PROMPT], bufsize=0, **PIPES) as client:
        try:
            yield client
        finally:
            client.kill()


def check(alone: Result, text: str, records: Path) -> None:
    assert text == alone.text + "\n"
    assert logprobs(records) == [(token.id, float_bits(token.raw_logprob or 0.0)) for token in alone.tokens]
