"""HealthLatency: how long a server's health takes to answer, measured all the while."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_INTERVAL = 0.01  # seconds between an answer and the next question


class HealthLatency:
    """Asks on a connection of its own, from its beginning to its end."""

    def __init__(self, address: str, clock: Callable[[], float]) -> None:
        self.seconds: list[float] = []
        self._clock = clock
        self._channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self._ask()  # which connects
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._channel.close()

    def _run(self) -> None:
        while not self._is_over.wait(_INTERVAL):
            began = self._clock()
            self._ask()
            self.seconds.append(self._clock() - began)

    def _ask(self) -> None:
        assert is_serving(self._channel)


def is_serving(channel: grpc.Channel) -> bool:
    """The status of the server by grpc.health.v1."""
    stub = health_pb2_grpc.HealthStub(channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=120, wait_for_ready=True)
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
