"""A target that is killed under the clients of all languages at once, and the same bytes from another one."""

import re
import select
import subprocess
import time
from collections.abc import Collection, Iterator
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
from tests.e2e.draft_rig import PROMPT, Service, serving
from tests.e2e.models import DEMO_TARGET
from tests.server import wait_until

PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
MOMENT, PATIENCE = 0.05, 2.0  # seconds of the target's, which are for few tokens, and of the clients behind each
OPTIONS = {"max_tokens": 400, "temperature": 0.9, "seed": 2**64 - 3}


@pytest.fixture
def targets(tmp_path: Path) -> Iterator[list[Service]]:
    """Two in processes of their own, which are never far ahead of who reads them."""
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
    addresses = [f"--address={target.address}" for target in targets]
    with ExitStack() as running:
        first.pause()  # so that all begin at the same time
        clients = {
            language: running.enter_context(start([*command, *addresses, f"--logprobs={tmp_path / language}"]))
            for language, command in commands.items()
        }
        wait_until(lambda: num_connections(first.address) == len(clients))
        begin(first, clients.values())
        begun = {language: client.stdout.read(1) for language, client in clients.items() if client.stdout}
        first.kill()
        for language, client in clients.items():
            rest, figures = client.communicate(timeout=SECONDS)
            assert client.returncode == 0, figures
            check(alone, (begun[language] + rest).decode(), tmp_path / language)
    wait_until(lambda: num_streams(tmp_path / "second" / "admin") == 1 + len(clients))  # the one alone, and all resumed


def begin(target: Service, clients: Collection["subprocess.Popen[bytes]"]) -> None:
    """Let a target that is paused go on until a client has written something, and then for moments, until each has and
    none can have all.
    """
    waiting = {client.stdout for client in clients}
    target.resume()
    select.select([*waiting], [], [], SECONDS)
    target.pause()
    while waiting:
        begun, _, _ = select.select([*waiting], [], [], PATIENCE)
        waiting -= {*begun}
        if not begun:
            target.resume()
            time.sleep(MOMENT)
            target.pause()


def num_connections(address: str) -> int:
    """Those that are open with a port of this machine, taken up or not."""
    port = f":{int(address.rpartition(':')[2]):04X}"
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/net/{name}").read_text().splitlines()]
    return sum(local.endswith(port) and state == "01" for _, local, _, state, *_ in rows)


def num_streams(admin: Path) -> int:
    """Those that a target has ended with success."""
    with grpc.insecure_channel(f"unix:{admin}") as channel:
        page = AdminServiceStub(channel).GetMetrics(GetMetricsRequest()).page
    counted = re.search(r'^outrider:calls_total\{code="OK",method="StreamGenerate"\} (\S+)$', page, re.MULTILINE)
    return int(float(counted[1])) if counted else 0


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
