"""Outrider on Ray Serve: replicas of a target that Serve's gRPC proxy calls, and drafts as actors on other nodes.

Start Ray and Serve with RAY_SERVE_ENABLE_HA_PROXY=1 in the environment of every node: the Python proxy loses the status
of a stream that fails. `serve run config.yaml` beside this file reads everything else from that.
"""

import ctypes
import functools
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import ray
from ray import serve
from ray.serve import Application
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from outrider.v1 import generation_pb2 as messages
from outrider.v1.generation_pb2_grpc import GenerationServiceStub

_HEALTH = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"
_POLL_SECONDS = 0.2
_END_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
_LIMITLESS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class Service:
    """`outrider NAME` in a process that ends with this one."""

    def __init__(self, name: str, listen: str, options: list[str]) -> None:
        prctl = ctypes.CDLL(None).prctl
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"services.{name}", "--listen", listen, *options],
            preexec_fn=lambda: prctl(_END_WITH_PARENT, signal.SIGKILL),  # noqa: PLW1509 - it makes one system call
        )

    def check(self) -> None:
        """Raise RuntimeError if it has ended."""
        if (code := self._process.poll()) is not None:
            raise RuntimeError(f"the service has ended with exit code {code}")


@ray.remote(max_restarts=-1)
class Draft:
    """A draft service. It keeps its address when it is restarted, as its place is reserved and its port is its own."""

    def __init__(self, port: int, options: list[str]) -> None:
        self._address = f"{ray.util.get_node_ip_address()}:{port}"
        self._service = Service("draft", self._address, options)

    def address(self) -> str:
        """Where targets reach it."""
        return self._address


def _tell(error: grpc.aio.AioRpcError, context: Any) -> None:
    """Give the caller the target's own status, with its details."""
    context.set_code(error.code())
    context.set_details(error.details() or "")
    context.set_trailing_metadata([*(error.trailing_metadata() or ())])


def _unary(name: str, response: Callable[[], Any]) -> Callable[..., Any]:
    """A method that answers with one message."""

    async def call(self: "Target", request: Any, grpc_context: Any) -> Any:
        try:
            return await getattr(self.stub, name)(request)
        except grpc.aio.AioRpcError as error:
            _tell(error, grpc_context)
            return response()

    call.__name__ = name
    return call


class Target:
    """One replica: a target service on a socket of its own, and its RPCs as Serve wants them.

    Report an error by setting the status and returning: a raised exception loses its details on the way.
    """

    def __init__(self, options: list[str], drafts: list[Any]) -> None:
        addresses = ray.get([draft.address.remote() for draft in drafts])
        self._folder = tempfile.TemporaryDirectory(prefix="outrider-")
        self._listen = f"unix:{Path(self._folder.name, 'target')}"
        self._service = Service("target", self._listen, [*options, *(f"--draft={each}" for each in addresses)])
        with grpc.insecure_channel(self._listen) as channel:
            while not _serves(channel):
                self._service.check()
                time.sleep(_POLL_SECONDS)

    @functools.cached_property
    def stub(self) -> Any:
        """The service's calls, for the event loop that this is first asked on."""
        return GenerationServiceStub(grpc.aio.insecure_channel(self._listen, _LIMITLESS))

    async def check_health(self) -> None:
        """Serve replaces a replica whose service has ended."""
        self._service.check()

    async def StreamGenerate(  # noqa: N802 - Serve finds it by the RPC's name
        self, request: messages.StreamGenerateRequest, grpc_context: Any
    ) -> AsyncIterator[messages.StreamGenerateResponse]:
        """One generation, event by event."""
        call = self.stub.StreamGenerate(request)
        try:
            async for event in call:
                yield event
        except grpc.aio.AioRpcError as error:
            _tell(error, grpc_context)
        finally:
            call.cancel()

    Generate = _unary("Generate", messages.GenerateResponse)
    Score = _unary("Score", messages.ScoreResponse)
    Embed = _unary("Embed", messages.EmbedResponse)
    # A session is in the cache of one replica; the others do not know it.
    CreateSession = _unary("CreateSession", messages.CreateSessionResponse)
    GetSession = _unary("GetSession", messages.GetSessionResponse)
    ListSessions = _unary("ListSessions", messages.ListSessionsResponse)
    DeleteSession = _unary("DeleteSession", messages.DeleteSessionResponse)
    Tokenize = _unary("Tokenize", messages.TokenizeResponse)
    Detokenize = _unary("Detokenize", messages.DetokenizeResponse)
    GetModelInfo = _unary("GetModelInfo", messages.GetModelInfoResponse)
    ListModels = _unary("ListModels", messages.ListModelsResponse)


def _serves(channel: grpc.Channel) -> bool:
    try:
        return bool(channel.unary_unary(_HEALTH)(b"", timeout=5) == _SERVING)
    except grpc.RpcError:
        return False


def app(arguments: dict[str, Any]) -> Application:
    """The application; `config.yaml` says what the arguments are."""
    drafts = _start_drafts(**arguments["drafts"])
    deployment = serve.deployment(Target).options(
        name="target",
        ray_actor_options=arguments["target_resources"],
        autoscaling_config=arguments["autoscaling"],
        max_ongoing_requests=arguments["max_ongoing_requests"],
        graceful_shutdown_timeout_s=arguments["drain_seconds"] + 10,
        health_check_period_s=2,
    )
    options = [*arguments["target_options"], f"--drain-seconds={arguments['drain_seconds']}"]
    return deployment.bind(options, drafts)


def _start_drafts(count: int, resources: dict[str, Any], first_port: int, options: list[str]) -> list[Any]:
    """Each on a node of its own where there are as many, in a place that stays reserved for it."""
    bundle = {"CPU": resources.get("num_cpus", 1), **({"GPU": gpus} if (gpus := resources.get("num_gpus")) else {})}
    places = placement_group([bundle] * count, strategy="SPREAD", name="outrider-drafts")
    return [
        Draft.options(
            **resources,
            name=f"outrider-draft-{index}",
            scheduling_strategy=PlacementGroupSchedulingStrategy(places, placement_group_bundle_index=index),
        ).remote(first_port + index, options)
        for index in range(count)
    ]
