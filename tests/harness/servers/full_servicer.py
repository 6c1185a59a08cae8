"""A scripted server that is full, with a delay for retries."""

# ruff: noqa: N802

from collections.abc import Iterator

import grpc

from tests.harness.servers.scripted_server import Event, Fault, Request, ScriptedServicer

FULL = Fault("arrival", grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
MUCH_LATER = "240000"  # milliseconds, which are more than a test takes


def full_servicer(pushback: str) -> type[ScriptedServicer]:
    """The servicer whose trailers say so."""

    class FullServicer(ScriptedServicer):
        def StreamGenerate(self, request: Request, context: grpc.ServicerContext) -> Iterator[Event]:
            context.set_trailing_metadata((("grpc-retry-pushback-ms", pushback),))
            return super().StreamGenerate(request, context)

    return FullServicer
