"""A target with two fronts, and a connection to each of them."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from services.service.fronts.fronts import Fronts
from tests.harness.servers.server import RunningTarget, target_server

_OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]
_ESTABLISHED = "01"


def fronts_of(target: RunningTarget) -> list[int]:
    """The ids of the processes."""
    assert isinstance(target.server._server, Fronts)
    return target.server._server.process_ids


def connections_of(process_id: int, port: int) -> set[str]:
    """The sockets of a process that are connected from a port."""
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    found = {row[9] for row in rows if row[3] == _ESTABLISHED and int(row[1].rpartition(":")[2], 16) == port}
    held = _files_of(process_id)
    return {inode for inode in found if f"socket:[{inode}]" in held}


def _files_of(process_id: int) -> set[str]:
    found = set()
    for file in Path(f"/proc/{process_id}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            found.add(os.readlink(file))
    return found


def channels_of(target: RunningTarget, stack: ExitStack, *options: tuple[str, Any]) -> list[grpc.Channel]:
    """A channel to each front: the system chooses a front for each connection, so that it may take several."""
    port, found = int(target.address.rpartition(":")[2]), dict[int, grpc.Channel]()
    while len(found) < len(fronts_of(target)):
        before = {process_id: connections_of(process_id, port) for process_id in fronts_of(target)}
        channel = stack.enter_context(grpc.insecure_channel(target.address, [*_OWN_CONNECTION, *options]))
        grpc.channel_ready_future(channel).result(60)
        (chosen,) = (each for each, known in before.items() if connections_of(each, port) - known)
        found.setdefault(chosen, channel)
    return [found[process_id] for process_id in fronts_of(target)]


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
