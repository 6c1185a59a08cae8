"""AdminServer: serves the AdminService at an address of its own, if one is configured."""

import logging
from dataclasses import replace

from outrider.v1 import admin_pb2
from outrider.v1.admin_pb2_grpc import AdminServiceServicer, add_AdminServiceServicer_to_server
from services.engine.decoder.loading_progress import LoadingProgress
from services.service.access.caller import Callers
from services.service.rpc_server import RpcServer
from services.service.server_config import ServerConfig

logger = logging.getLogger(__name__)

SERVICE: str = admin_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name


class AdminServer:
    """Listens apart from the service's own address, so that clients that may only generate cannot even reach it."""

    def __init__(
        self, config: ServerConfig, callers: Callers, servicer: AdminServiceServicer, progress: LoadingProgress
    ) -> None:
        """Without `admin_listen` it does nothing."""
        self.address = ""
        self._server: RpcServer | None = None
        if config.admin_listen is not None:
            own = replace(config, listen=config.admin_listen, tls_certificate=None, tls_key=None, tls_client_ca=None)
            self._server = RpcServer(
                own, callers, [SERVICE], lambda rpc: add_AdminServiceServicer_to_server(servicer, rpc), progress
            )

    async def start(self) -> None:
        """Listen; raises ConfigError if that is not possible."""
        if self._server is not None:
            self.address = await self._server.start()
            await self._server.set_serving(True)
            logger.info("the AdminService listens on %s", self.address)

    async def stop(self) -> None:
        """Stop the server, if there is one."""
        if self._server is not None:
            await self._server.stop()
