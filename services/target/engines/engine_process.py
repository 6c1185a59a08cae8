"""EngineProcess: opens the engine of a model in a process of its own, which also has the links to its drafts."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from services.engine.config import EngineConfig
from services.engine.decoder.loading_progress import LoadingProgress
from services.service.errors import EngineFailedError
from services.service.life.log_level import current_level
from services.service.server_config import ServerConfig
from services.target.engines.engine_server import EngineOrder, EngineServer
from services.target.engines.model_drafts import takes_drafts
from services.target.engines.model_setup import ModelSetup
from services.target.engines.remote_engine import RemoteEngine
from services.target.speculation.link.draft_links import DraftLinks
from services.telemetry.log_lines import current_format

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 5.0  # for an answer that an engine's process gives at once unless it hangs


class EngineProcess:
    """Call `open` on a thread, then `start`, and finally `stop`, these two on the event loop that it is made on."""

    def __init__(self, setup: ModelSetup, server: ServerConfig) -> None:
        """Raises ConfigError for drafts that are not allowed."""
        self._setup, self._server = setup, server
        self._loop = asyncio.get_running_loop()
        self._engine: RemoteEngine | None = None
        self.drafts: RemoteDrafts | None = None
        if takes_drafts(setup, server):
            setup.draft_credentials.watch()  # which finds faults before a model is loaded
            self.drafts = RemoteDrafts(setup.drafts, lambda: self._engine)

    def open(
        self,
        config: EngineConfig,
        loras: Mapping[str, Path],
        progress: LoadingProgress,
        *,
        try_out: Callable[[], None],
        on_failure: Callable[[], None],
    ) -> RemoteEngine:
        """Load the model, whose files must be here, which takes long; see RemoteEngine.open."""
        order = EngineOrder(
            setup=replace(self._setup, engine=config, drafts=self.drafts.addresses if self.drafts else ()),
            server=self._server,
            loras=dict(loras),
            log_format=current_format(),
            log_level=current_level(),
        )
        engine = RemoteEngine.open(self._loop, order, progress, try_out=try_out, on_failure=on_failure)
        self._engine = engine
        logger.info("the engine has process %s", engine.process_id)
        return engine

    async def start(self) -> None:
        """Link to the drafts; returns once those that are there were rehearsed, or after a time limit."""
        if self._engine is not None and self.drafts is not None:
            await self._engine.ask(EngineServer.start_drafts)

    async def stop(self) -> None:
        """Forget the engine, which others close; that ends the links to its drafts."""
        self._engine = None


class RemoteDrafts:
    """The drafts of an engine in another process."""

    def __init__(self, addresses: Iterable[str], find: Callable[[], RemoteEngine | None]) -> None:
        """`addresses` are those at the start; `find` returns the engine while there is one."""
        self.addresses = [*addresses]
        """Those of the next loading."""
        self._find = find
        self._absences: Mapping[str, str] = {}

    async def add(self, address: str) -> None:
        """Add a draft; raises ValueError if it is one of the drafts already, or if its address is not allowed."""
        await self._found().ask(EngineServer.add_draft, address)
        self.addresses.append(address)

    async def remove(self, address: str) -> None:
        """Remove a draft; raises ValueError if it is none of the drafts."""
        await self._found().ask(EngineServer.remove_draft, address)
        self.addresses.remove(address)

    async def absences(self) -> Mapping[str, str]:
        """For every address the reason why its draft is not linked, as far as is known; empty if it is."""
        if (engine := self._find()) is None:
            return {}
        with suppress(EngineFailedError, TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                self._absences = await engine.ask(EngineServer.absences)
        return self._absences

    def links(self) -> DraftLinks:
        """The state of all links when the engine's figures were asked for last; for any thread."""
        engine = self._find()
        return DraftLinks() if engine is None else engine.links()

    def _found(self) -> RemoteEngine:
        if (engine := self._find()) is None:
            raise EngineFailedError("the model is not loaded")
        return engine
