"""RunningTarget: a target server inside the test's own process, with its engine open to inspection."""

import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from collections.abc import Sequence as Seq
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from services.engine.config import EngineConfig, resolve_isa
from services.service.access.credential_files import CredentialFiles
from services.service.server_config import ServerConfig
from services.target.engines.model_drafts import ModelDrafts
from services.target.engines.model_setup import ModelSetup
from services.target.generation.engine import TargetEngine
from services.target.kv_events.zmq_config import ZmqConfig
from services.target.message.syntax import AUTO
from services.target.models.residency_config import ResidencyConfig
from services.target.models.target_model import TargetModel
from services.target.server import SERVICE, TargetServer
from services.target.speculation.predictors.predictor import Predictor
from tests.harness.servers.loop_thread import PATIENCE_SECONDS, LoopThread

Result = TypeVar("Result")
_POLL_SECONDS = 0.005
RUN_AHEAD = 8  # tokens of credit for drafts, as if they had cores of their own


class RunningTarget:
    """A server on a free port, with an event loop on a thread of its own."""

    def __init__(
        self,
        models: Seq[ModelSetup],
        server: ServerConfig,
        vllm_contract: bool | None = None,
        residency: ResidencyConfig | None = None,
        fronts: int = 0,
        zmq: ZmqConfig | None = None,
    ) -> None:
        self._thread = LoopThread()
        try:
            self.server: TargetServer = self.call(_make(models, server, vllm_contract, residency, fronts, zmq))
            self.address: str = self.call(self.server.start())
        except BaseException:
            self._thread.close()
            raise
        self.channel = grpc.insecure_channel(self.address)
        self.stub = GenerationServiceStub(self.channel)

    @property
    def model(self) -> TargetModel:
        """The model, or of several the first."""
        return self.server.models.first

    @property
    def engine(self) -> TargetEngine:
        """Its engine, once the model is loaded."""
        assert self.server.engine is not None
        return self.server.engine

    def call(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the server's loop and return what it returns."""
        return self._thread.call(coroutine)

    def begin(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Start a coroutine on the server's loop."""
        return self._thread.begin(coroutine)

    def on_engine_thread(self, function: Callable[[], Result]) -> Result:
        """Run a function between two steps and return what it returns."""
        future: Future[Result] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except Exception as error:  # which would end the engine, that other tests share
                future.set_exception(error)

        self.engine._loop.post(run)
        return future.result(PATIENCE_SECONDS)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """The engine thread waits between two steps until the block ends."""
        is_held, goes_on = threading.Event(), threading.Event()

        def hold() -> None:
            is_held.set()
            goes_on.wait()

        self.engine._loop.post(hold)
        try:
            assert is_held.wait(PATIENCE_SECONDS)
            yield
        finally:
            goes_on.set()

    def health(self, service: str = SERVICE) -> str:
        """The status of the service by grpc.health.v1."""
        answer = health_pb2_grpc.HealthStub(self.channel).Check(health_pb2.HealthCheckRequest(service=service))
        return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)

    def wait_for_draft(self) -> None:
        """Return once the link to the draft is up."""
        pool = own_drafts(self.model).pool
        wait_until(lambda: pool.is_linked)

    def assert_all_free(self) -> None:
        """Wait until no sequence is left, then check that no KV block is either.

        Both are looked at between the same two steps: a rehearsal may begin at any time.
        """
        wait_until(lambda: self.on_engine_thread(self._is_idle))

    def _is_idle(self) -> bool:
        blocks, sequences = self.engine.blocks, self.engine.scheduler.sequences
        blocks.check_integrity(sequence.text for sequence in sequences)
        assert sequences or blocks.num_free == blocks.num_blocks
        return not sequences

    def close(self) -> None:
        """Drain and stop the server, and end its loop and thread."""
        try:
            self.channel.close()
            self.call(self.server.close())
        finally:
            self._thread.close()


def own_drafts(model: TargetModel) -> ModelDrafts:
    """The drafts of a model whose engine is in this process."""
    assert isinstance(model.drafts, ModelDrafts)
    return model.drafts


@contextlib.contextmanager
def target_server(
    model: Path,
    *,
    predictor: Predictor | None = None,
    drafts: Seq[str] = (),
    lookup: bool = False,
    server: ServerConfig | None = None,
    loads: bool = True,
    parsers: Mapping[str, str] | None = None,
    draft_credentials: CredentialFiles | None = None,
    vllm_contract: bool | None = None,
    name: str = "",
    further: Seq[ModelSetup] = (),
    residency: ResidencyConfig | None = None,
    loras: Mapping[str, Path] | None = None,
    lora_dir: Path | None = None,
    own_process: bool = False,
    fronts: int = 0,
    zmq: ZmqConfig | None = None,
    **engine: Any,
) -> Iterator[RunningTarget]:
    """Serve a model, and `further` ones; `engine` are fields of EngineConfig. Without `loads` the caller runs
    `server.open()` itself.
    """
    setup = ModelSetup(
        engine=engine_config(model, **engine),
        name=name,
        loras=loras or {},
        lora_dir=lora_dir,
        predictor=predictor,
        drafts=drafts,
        run_ahead=RUN_AHEAD,
        draft_credentials=draft_credentials or CredentialFiles(),
        lookup=lookup,
        tool_parser=(parsers or {}).get("tool_parser", AUTO),
        reasoning_parser=(parsers or {}).get("reasoning_parser", AUTO),
        own_process=own_process,
    )
    server = server or ServerConfig(listen="127.0.0.1:0", drain_seconds=0)
    running = RunningTarget([setup, *further], server, vllm_contract, residency, fronts, zmq)
    try:
        if loads:
            running.call(running.server.open())
        yield running
    finally:
        running.close()


def wait_until(condition: Callable[[], object]) -> None:
    """Poll until the condition holds; raises TimeoutError after a time that only a fault can take."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the condition never came true")
        time.sleep(_POLL_SECONDS)


def engine_config(model: Path, **settings: Any) -> EngineConfig:
    """A small engine of one thread, but for these settings."""
    return EngineConfig(model=model, **{"isa": resolve_isa(), "threads": 1, "kv_blocks": 64, **settings})


async def _make(
    models: Seq[ModelSetup],
    server: ServerConfig,
    vllm_contract: bool | None,
    residency: ResidencyConfig | None,
    fronts: int,
    zmq: ZmqConfig | None,
) -> TargetServer:
    return TargetServer(models, server, vllm_contract=vllm_contract, residency=residency, fronts=fronts, zmq=zmq)
