"""A service with an admin address, and a client for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from outrider.v1.admin_pb2_grpc import AdminServiceStub
from services.service.server_config import ServerConfig
from services.target.speculation.predictors.predictor import Predictor
from tests.harness.servers.server import RunningTarget, target_server


@contextmanager
def administered_target(
    model: Path, *, predictor: Predictor | None = None, lora_dir: Path | None = None, name: str = "", **fields: Any
) -> Iterator[tuple[RunningTarget, AdminServiceStub]]:
    """A target, and what to administer it with; `fields` are those of ServerConfig."""
    config = ServerConfig(**{"listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0", "drain_seconds": 0, **fields})
    with (
        target_server(model, predictor=predictor, lora_dir=lora_dir, name=name, server=config) as target,
        admin_of(target.server.admin.address) as stub,
    ):
        yield target, stub


@contextmanager
def admin_of(address: str) -> Iterator[AdminServiceStub]:
    """What to administer a service with."""
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield AdminServiceStub(channel)
