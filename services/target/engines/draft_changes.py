"""DraftChanges: adds drafts to a target and removes them while it serves."""

import asyncio
from collections.abc import Callable

from services.target.generation.engine import TargetEngine
from services.target.speculation.link.draft_pool import DraftPool
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.rehearsal import Rehearsals


class DraftChanges:
    """Running sequences use a draft that is added, and continue without one that is removed; no output byte changes.

    The methods are called on the event loop of the links; one change is made at a time.
    """

    def __init__(
        self,
        pool: DraftPool,
        rehearsals: dict[str, Rehearsals],
        config: PolicyConfig,
        check: Callable[[str], None],
    ) -> None:
        """`rehearsals` has an entry for each address, and gets one for each new address. `check` raises ValueError for
        an address that is not allowed.
        """
        self._pool, self._rehearsals, self._config, self._check = pool, rehearsals, config, check
        self._changing = asyncio.Lock()

    async def add(self, engine: TargetEngine, address: str) -> None:
        """Add a draft; raises ValueError if it is one of the drafts already, or if its address is not allowed."""
        self._check(address)
        async with self._changing:
            if address in self._pool.absences:
                raise ValueError("is one of the drafts already")
            self._rehearsals[address] = Rehearsals(self._config)
            predictor = self._pool.add(address)

            def admit() -> None:
                self._pool.admit(address)
                engine.add_predictor(predictor)

            await asyncio.wrap_future(engine.ask(admit))

    async def remove(self, engine: TargetEngine, address: str) -> None:
        """Remove a draft; raises ValueError if it is none of the drafts."""
        async with self._changing:
            if address not in self._pool.absences:
                raise ValueError("is none of the drafts")
            predictor = self._pool.predictor_at(address)

            def dismiss() -> None:
                self._pool.dismiss(address)
                engine.remove_predictor(predictor)

            await asyncio.wrap_future(engine.ask(dismiss))
            self._rehearsals.pop(address).stop()
            await self._pool.remove(address)
