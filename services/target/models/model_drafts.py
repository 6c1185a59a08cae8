"""ModelDrafts: the drafts of one model: links to them, rehearsals that measure them, and changes of them."""

import asyncio
from collections.abc import Callable, Coroutine

from services.engine.decoder.compute_resources import ComputeResources
from services.service.access.clear_text import check_clear_text
from services.service.server_config import ServerConfig
from services.target.generation.engine import TargetEngine
from services.target.models.draft_changes import DraftChanges
from services.target.models.model_setup import ModelSetup
from services.target.speculation.link.draft_pool import DraftPool
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.rehearsal import Rehearsals


class ModelDrafts:
    """Links to the drafts from `start` to `stop`, on one event loop."""

    def __init__(
        self,
        setup: ModelSetup,
        server: ServerConfig,
        policy: PolicyConfig,
        rehearse: Callable[[], Coroutine[None, None, bool]],
    ) -> None:
        """For `rehearse` see Rehearsals. Raises ConfigError if clear text would leave this machine without consent."""
        self._is_encrypted, self._is_clear_allowed = setup.draft_credentials.authorities is not None, server.insecure
        for address in setup.drafts:
            self._check(address)
        self._rehearse = rehearse
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
        self.changes = DraftChanges(self.pool, self._rehearsals, policy, self._check)

    async def start(self, engine: TargetEngine) -> None:
        """Begin to link to the drafts; returns once those that answer were rehearsed, or after a time limit."""
        model = engine.model
        vocab_size = model.checkpoint.config.vocab_size
        self.pool.start(vocabulary=model.tokenizer.fingerprint(), vocab_size=vocab_size)
        await asyncio.gather(*(each.first() for each in self._rehearsals.values()))

    async def stop(self) -> None:
        """End the links to all drafts."""
        for each in self._rehearsals.values():
            each.stop()
        await self.pool.stop()

    def _check(self, address: str) -> None:
        if not self._is_encrypted:
            check_clear_text("draft", address, "give --draft-tls-ca", is_allowed=self._is_clear_allowed)

    def _meet(self, address: str) -> None:
        self._rehearsals[address].draft_came(self._rehearse)
