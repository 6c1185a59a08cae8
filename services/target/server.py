"""TargetServer: the life of the target service: listen, load, warm up, serve, drain."""

from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING

from grpc import aio

from outrider.v1 import generation_pb2
from outrider.v1.generation_pb2_grpc import add_GenerationServiceServicer_to_server
from services.engine.config import ConfigError
from services.service.access.clear_text import check_clear_text
from services.service.access.tokens import read_callers
from services.service.admin.admin_server import AdminServer
from services.service.life.availability import Availability
from services.service.life.exit_code import ExitCode
from services.service.life.reload import Reload
from services.service.rpc_server import RpcServer
from services.service.server_config import ServerConfig
from services.target.api.servicer import GenerationServicer
from services.target.api.target_admin import TargetAdmin
from services.target.contracts.subscribers import Subscribers
from services.target.engines.model_setup import ModelSetup
from services.target.fronts.fronts import Fronts
from services.target.generation.engine import TargetEngine
from services.target.kv_events.zmq_config import ZmqConfig
from services.target.metrics.request_traces import RequestTraces
from services.target.models.lora_changes import LoraChanges
from services.target.models.models_metrics import ModelsMetrics
from services.target.models.residency_config import ResidencyConfig
from services.target.models.target_models import TargetModels
from services.target.openengine.contract import CONTROL, INFERENCE, register
from services.target.openengine.contract import SERVICES as OPENENGINE
from services.target.openengine.control import Control
from services.target.openengine.inference import Inference
from services.target.openengine.loras import Loras
from services.target.openengine.running_requests import RunningRequests
from services.target.vllm_contract.contract import SERVICE as CONTRACT
from services.target.vllm_contract.contract import open_contract
from services.telemetry.call_metrics import CallMetrics
from services.telemetry.telemetry import Telemetry
from services.telemetry.telemetry_config import TelemetryConfig

if TYPE_CHECKING:
    from services.target.kv_events.zmq_publisher import ZmqPublisher

SERVICE: str = generation_pb2.DESCRIPTOR.services_by_name["GenerationService"].full_name
_SHUTTING_DOWN = "the server is shutting down"


class TargetServer:
    """Call `start`, then `open`, and finally `close`, all on one event loop."""

    def __init__(
        self,
        models: Seq[ModelSetup],
        server: ServerConfig,
        *,
        residency: ResidencyConfig | None = None,
        vllm_contract: bool | None = None,
        telemetry: TelemetryConfig | None = None,
        fronts: int = 0,
        zmq: ZmqConfig | None = None,
    ) -> None:
        """The first of `models` serves requests that name none. `residency` is when models are loaded, by default all
        at the start; for `vllm_contract` see open_contract. With two `fronts` or more, so many other processes have
        the connections of clients. `zmq` is where KV events are published, too. Raises ConfigError.
        """
        self._telemetry, self.reload = Telemetry(telemetry, "outrider-target"), Reload()
        self._callers, self._drain_seconds = read_callers(server.tokens_file), server.drain_seconds
        self.availability = Availability(self._set_availability)
        self.models = TargetModels(models, server, self.availability, residency or ResidencyConfig())
        self._servicer = self._new_servicer(server)
        self._publisher = self._new_publisher(zmq, server)
        self._lora_changes = LoraChanges(self.models)
        self._server = self._new_server(server, vllm_contract, fronts)
        admin = TargetAdmin(
            self.availability,
            self.reload,
            self._telemetry,
            self.models,
            self._servicer,
            server,
            self._follow_log_level,
            self._lora_changes,
        )
        self.admin = AdminServer(server, self._callers, admin, self.models.first.progress)

    @property
    def engine(self) -> TargetEngine | None:
        """The first model's engine, once that is loaded, if it is in this process."""
        engine = self.models.first.engine
        return engine if isinstance(engine, TargetEngine) else None

    def _new_server(self, server: ServerConfig, vllm_contract: bool | None, fronts: int) -> RpcServer | Fronts:
        subscribers, requests = Subscribers(self._servicer), RunningRequests()
        contract = open_contract(vllm_contract, self._servicer, subscribers)
        inference = Inference(self._servicer, requests)
        loras = Loras(self.models.first, self._lora_changes)
        control = Control(self._servicer, self.models, requests, subscribers, loras)

        def register_all(rpc: aio.Server) -> None:
            add_GenerationServiceServicer_to_server(self._servicer, rpc)
            register(rpc, INFERENCE, inference)
            register(rpc, CONTROL, control)
            if contract is not None:
                contract.register(rpc)

        services = [SERVICE, *OPENENGINE, *([CONTRACT] if contract else [])]
        checks = {
            f"/{name}": self._servicer.check for name in (f"{SERVICE}/StreamGenerate", f"{OPENENGINE[0]}/Generate")
        }
        progress = self.models.first.progress
        if fronts > 1:
            return Fronts(server, self._callers, services, register_all, progress, count=fronts, checks=checks)
        return RpcServer(server, self._callers, services, register_all, progress, checks=checks)

    def _new_publisher(self, zmq: ZmqConfig | None, server: ServerConfig) -> "ZmqPublisher | None":
        if zmq is None:
            return None
        if not self.models.first.config.kv_events:
            raise ConfigError("kv_events_zmq must not be set without kv_events")
        for option, address in zmq.network_addresses:
            check_clear_text(option, address, "use ipc://PATH", is_allowed=server.insecure)
        from services.target.kv_events.zmq_publisher import ZmqPublisher  # whose packages may be missing

        return ZmqPublisher(zmq, self.models.first)

    def _new_servicer(self, server: ServerConfig) -> GenerationServicer:
        tracing = self._telemetry.tracing
        return GenerationServicer(
            self._callers,
            self.models,
            traces=RequestTraces(tracing) if tracing else None,
            load_reports=self._telemetry.config.load_reports,
            reader_timeout=server.reader_timeout,
        )

    async def start(self) -> str:
        """Listen, and return the address; requests get UNAVAILABLE until their model is loaded."""
        self.reload.add("log level of other processes", self._follow_log_level)
        metrics = ModelsMetrics(self.models, prefix=self._telemetry.config.metrics_prefix)
        self._telemetry.start(CallMetrics(self._server.calls), metrics, find_processes=self._process_ids)
        await self.admin.start()
        if self._publisher is not None:
            await self._publisher.start()
        return await self._server.start()

    async def open(self) -> None:
        """Load the models in order, and serve each as soon as it is loaded.

        Raises CheckpointError, ConfigError and EngineFailedError.
        """
        await self.models.open(lambda: self._set_availability(self.availability.reason))

    async def wait_failed(self) -> ExitCode:
        """Return when an engine has died or hangs; the clients of a dead one have been sent errors."""
        code = await self.models.wait_ended()
        await self.availability.obstruct("the engine has failed")
        return code

    async def close(self) -> None:
        """Drain: refuse new requests, let the running ones finish for a while, cut the rest, end the engines.

        A stream that is cut ends with UNAVAILABLE after its last token, and can be continued on another server.
        """
        await self.availability.obstruct(_SHUTTING_DOWN)
        await self.models.drain(self._drain_seconds, _SHUTTING_DOWN)
        if self._publisher is not None:
            await self._publisher.close()
        await self._server.stop()
        await self.admin.stop()
        await self.models.close()
        await self._telemetry.close()

    def _process_ids(self) -> list[int]:
        """The processes beside this one; for any thread."""
        return [*self.models.process_ids(), *(self._server.process_ids if isinstance(self._server, Fronts) else ())]

    def _follow_log_level(self) -> None:
        self.models.follow_log_level()
        if isinstance(self._server, Fronts):
            self._server.follow_log_level()

    async def _set_availability(self, reason: str) -> None:
        self._servicer.refuse(reason)
        await self._server.set_serving(not reason and self.models.residency.can_serve)
