"""The libraries that resume: closing a client, or leaving a stream, ends its RPC and its waiting."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.clients.conftest import SECONDS
from tests.clients.toolchains import RESUMING
from tests.harness.servers.full_servicer import FULL, MUCH_LATER, full_servicer
from tests.harness.servers.scripted_server import DRAWN_SEED, Fault, ScriptedServer, answer, text_of
from tests.harness.servers.server import wait_until

CANCELLED = f"\n{grpc.StatusCode.CANCELLED.value[0]}\n".encode()
BEGUN = text_of(answer(list(b"def quicksort"), DRAWN_SEED)[:3], is_whole=False).encode()
HUNG = Fault(3, how="hang")
PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="module", params=RESUMING)
def language(request: pytest.FixtureRequest) -> str:
    """Those that resume."""
    return request.param


@pytest.fixture
def start(command: list[str]) -> Iterator[Start]:
    """Starts the program in `endings` that stands beside the client's own."""
    program = Path(command[-1])
    ending = [*command[:-1], str(program.with_name("ending" + program.suffix))]
    started = []

    def start(server: ScriptedServer, how: str) -> "subprocess.Popen[bytes]":
        started.append(subprocess.Popen([*ending, server.address, how], bufsize=0, **PIPES))
        return started[-1]

    yield start
    for client in started:
        client.kill()
        client.communicate()


def begin(client: "subprocess.Popen[bytes]") -> None:
    """Wait for the first chunk."""
    assert client.stdout is not None
    assert client.stdout.read(len(BEGUN)) == BEGUN


def check_closed(client: "subprocess.Popen[bytes]") -> None:
    """Close the client; its stream must end with a cancellation."""
    output, errors = client.communicate(b"\n", timeout=SECONDS)
    assert (output, errors, client.returncode) == (CANCELLED, b"", 0)


def test_a_client_that_is_closed_ends_its_stream(start: Start) -> None:
    with ScriptedServer(HUNG) as server:
        client = start(server, "close")
        begin(client)
        check_closed(client)
        assert server.servicer.ended.wait(SECONDS)
        assert len(server.requests) == 1


def test_a_client_that_is_closed_stops_waiting_for_a_full_server(start: Start) -> None:
    with ScriptedServer(FULL, servicer_type=full_servicer(MUCH_LATER)) as server:
        client = start(server, "close")
        wait_until(lambda: len(server.requests) == 1)
        check_closed(client)
        assert len(server.requests) == 1


def test_a_stream_that_is_left_ends_on_the_server_too(start: Start) -> None:
    with ScriptedServer(HUNG) as server:
        client = start(server, "leave")
        begin(client)
        assert server.servicer.ended.wait(SECONDS)
        assert client.poll() is None
        client.communicate(b"\n", timeout=SECONDS)
    assert (client.returncode, len(server.requests)) == (0, 1)
