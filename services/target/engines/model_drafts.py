"""ModelDrafts: the drafts of one model: links to them, rehearsals that measure them, and changes of them."""

import asyncio
from functools import partial

from services.engine.decoder.compute_resources import ComputeResources
from services.service.access.clear_text import check_clear_text
from services.service.errors import UnavailableError
from services.service.server_config import ServerConfig
from services.target.engines.draft_changes import DraftChanges
from services.target.engines.model_setup import ModelSetup
from services.target.generation.engine import TargetEngine
from services.target.speculation.link.draft_links import DraftLinks
from services.target.speculation.link.draft_pool import DraftPool
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.rehearsal import Rehearsals


class ModelDrafts:
    """Links to the drafts from `start` to `stop`, on one event loop."""

    def __init__(self, setup: ModelSetup, server: ServerConfig, policy: PolicyConfig) -> None:
        """Raises ConfigError for files that cannot be used."""
        self._rehearsals = {address: Rehearsals(policy) for address in setup.drafts}
        self.pool = DraftPool(
            setup.drafts,
            ComputeResources.here(device=setup.engine.device, threads=setup.engine.threads),
            policy,
            credentials=setup.draft_credentials.watch(),
            run_ahead=setup.run_ahead,
            num_alternates=setup.num_alternates,
            is_open=server.admin_listen is not None,
            on_linked=self._meet,
        )
        self._changes = DraftChanges(self.pool, self._rehearsals, policy, partial(_check, setup, server))
        self._engine: TargetEngine | None = None

    async def start(self, engine: TargetEngine) -> None:
        """Begin to link to the drafts; returns once those that are there were rehearsed, or after a time limit."""
        self._engine = engine
        vocab_size = engine.checkpoint.config.vocab_size
        self.pool.start(vocabulary=engine.tokenizer.fingerprint(), vocab_size=vocab_size)
        await self.pool.first_tries()
        await asyncio.gather(*(each.first() for each in self._rehearsals.values()))

    async def stop(self) -> None:
        """End the links to all drafts."""
        for each in self._rehearsals.values():
            each.stop()
        await self.pool.stop()
        self._engine = None

    async def add(self, address: str) -> None:
        """Add a draft; raises ValueError if it is one of the drafts already, or if its address is not allowed."""
        await self._changes.add(self._started(), address)

    async def remove(self, address: str) -> None:
        """Remove a draft; raises ValueError if it is none of the drafts."""
        await self._changes.remove(self._started(), address)

    async def absences(self) -> dict[str, str]:
        """For every address the reason why its draft is not linked; empty if it is."""
        return self.pool.absences

    def links(self) -> DraftLinks:
        """The state of all links; for any thread."""
        return self.pool.links()

    def _started(self) -> TargetEngine:
        if self._engine is None:
            raise UnavailableError("the model is still loading")
        return self._engine

    def _meet(self, address: str) -> None:
        self._rehearsals[address].draft_came(self._rehearse)

    async def _rehearse(self) -> bool:
        return await self._engine.rehearse() if self._engine is not None and self.pool.is_linked else True


def takes_drafts(setup: ModelSetup, server: ServerConfig) -> bool:
    """Whether a model has drafts or may get some; raises ConfigError if clear text would leave this machine without
    consent.
    """
    for address in setup.drafts:
        _check(setup, server, address)
    return setup.predictor is None and bool(setup.drafts or server.admin_listen)


def _check(setup: ModelSetup, server: ServerConfig, address: str) -> None:
    if setup.draft_credentials.authorities is None:
        check_clear_text("draft", address, "give --draft-tls-ca", is_allowed=server.insecure)
