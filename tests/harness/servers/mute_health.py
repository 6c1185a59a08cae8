"""MuteHealth: that of a server which hangs, and the fault for which it is asked."""

import threading

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthServicer

from tests.harness.servers.scripted_server import Fault

BROKEN = Fault("arrival", grpc.StatusCode.INTERNAL, "Received RST_STREAM with error code 2")


class MuteHealth(HealthServicer):
    """Answers nobody."""

    def __init__(self) -> None:
        self.num_asked = 0
        """How often it was asked."""

    def Check(self, request: HealthCheckRequest, context: grpc.ServicerContext) -> HealthCheckResponse:  # noqa: N802
        """Wait until the caller has given up."""
        self.num_asked += 1
        is_over = threading.Event()
        if context.add_callback(is_over.set):
            is_over.wait()
        return HealthCheckResponse()
