"""HealthWatch: what health reports to a client that watches it."""

import queue
import threading
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.target.server import SERVICE


class HealthWatch:
    """Follows grpc.health.v1's Watch."""

    def __init__(self, address: str) -> None:
        self._seen: queue.Queue[str] = queue.Queue()
        self._channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        call = health_pb2_grpc.HealthStub(self._channel).Watch(health_pb2.HealthCheckRequest(service=SERVICE))
        self._thread = threading.Thread(target=self._follow, args=(call,))
        self._thread.start()

    def _follow(self, call: Any) -> None:
        try:
            for answer in call:
                self._seen.put(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))
        except grpc.RpcError as error:
            self._seen.put(error.code().name)

    def next(self) -> str:
        """The next status, or the name of the code that ended the call."""
        return self._seen.get(timeout=60)

    def close(self) -> None:
        """Follow no longer."""
        self._channel.close()
        self._thread.join()
