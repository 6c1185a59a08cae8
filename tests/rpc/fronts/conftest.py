"""A target with two fronts, and a connection to each of them."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from services.target.fronts.fronts import Fronts
from tests.harness.servers.server import RunningTarget, target_server, wait_until

_OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]
_ESTABLISHED, _LISTENING = "01", "0A"


def fronts_of(target: RunningTarget) -> list[int]:
    """The ids of the processes."""
    assert isinstance(target.server._server, Fronts)
    return target.server._server.process_ids


def sockets_of(process_id: int, port: int, state: str = _ESTABLISHED) -> set[str]:
    """The sockets of a process at a port, by default those that are connected."""
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    found = {row[9] for row in rows if row[3] == state and int(row[1].rpartition(":")[2], 16) == port}
    held = set()
    with suppress(FileNotFoundError):  # it has ended
        for file in Path(f"/proc/{process_id}/fd").iterdir():
            with suppress(FileNotFoundError):  # it was closed meanwhile
                held.add(os.readlink(file))
    return {inode for inode in found if f"socket:[{inode}]" in held}


def channels_of(target: RunningTarget, stack: ExitStack, *options: tuple[str, Any]) -> list[grpc.Channel]:
    """A channel to each front: the system chooses a front for each connection, so that it may take several."""
    port, found = int(target.address.rpartition(":")[2]), dict[int, grpc.Channel]()
    wait_until(lambda: all(sockets_of(each, port, _LISTENING) for each in fronts_of(target)))
    fronts = fronts_of(target)
    while len(found) < len(fronts):
        before = {process_id: sockets_of(process_id, port) for process_id in fronts}
        channel = grpc.insecure_channel(target.address, [*_OWN_CONNECTION, *options])
        grpc.channel_ready_future(channel).result(300)
        (chosen,) = (each for each, known in before.items() if sockets_of(each, port) - known)
        if chosen in found:
            channel.close()
        else:
            found[chosen] = stack.enter_context(channel)
    return [found[process_id] for process_id in fronts]


@pytest.fixture(scope="package")
def shared_fronted(model: Path) -> Iterator[RunningTarget]:
    """One target for all tests that leave it as they found it."""
    with target_server(model, fronts=2) as target:
        yield target


@pytest.fixture
def fronted(shared_fronted: RunningTarget) -> Iterator[RunningTarget]:
    """The shared target; after the test no sequence and no KV block is left in it."""
    yield shared_fronted
    shared_fronted.assert_all_free()


@pytest.fixture
def stubs(fronted: RunningTarget) -> Iterator[list[GenerationServiceStub]]:
    """What calls each of the fronts."""
    with ExitStack() as stack:
        yield [GenerationServiceStub(channel) for channel in channels_of(fronted, stack)]
