"""OwnEngine: opens the engine of a model in this process, with links to its drafts."""

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from pathlib import Path

from services.engine.config import EngineConfig
from services.engine.decoder.loading_progress import LoadingProgress
from services.engine.loop import PulseMemory
from services.service.server_config import ServerConfig
from services.target.engines.model_drafts import ModelDrafts, takes_drafts
from services.target.engines.model_setup import ModelSetup
from services.target.generation.deliveries import Deliveries
from services.target.generation.engine import TargetEngine
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.lookup_predictor import with_lookup
from services.target.speculation.predictors.predictor import Predictor


class OwnEngine:
    """Call `open` on a thread, then `start`, and finally `stop`, these two on one event loop."""

    def __init__(self, setup: ModelSetup, server: ServerConfig) -> None:
        """Raises ConfigError for drafts that are not allowed."""
        self.drafts = ModelDrafts(setup, server, PolicyConfig()) if takes_drafts(setup, server) else None
        self._setup = setup
        self._engine: TargetEngine | None = None

    def open(
        self,
        config: EngineConfig,
        loras: Mapping[str, Path],
        progress: LoadingProgress,
        *,
        try_out: Callable[[], None] = lambda: None,
        on_failure: Callable[[], None],
        deliveries: Deliveries | None = None,
        pulse_memory: PulseMemory | None = None,
    ) -> TargetEngine:
        """Load the model, which takes long, and return its engine; for the arguments see TargetEngine.open."""
        self._engine = TargetEngine.open(
            config,
            loras=loras,
            make_predictors=self._predictors,
            progress=progress,
            try_out=try_out,
            on_failure=on_failure,
            deliveries=deliveries,
            pulse_memory=pulse_memory,
        )
        return self._engine

    async def start(self) -> None:
        """Link to the drafts; returns once those that are there were rehearsed, or after a time limit."""
        if self.drafts is not None and self._engine is not None:
            await self.drafts.start(self._engine)

    async def stop(self) -> None:
        """End the links to all drafts, and forget the engine, which others close."""
        self._engine = None
        if self.drafts is not None:
            await self.drafts.stop()

    def _predictors(self, of_model: Seq[Predictor]) -> list[Predictor]:
        """The predictors in the order in which they are asked."""
        setup = self._setup
        drafts = self.drafts.pool.predictors if self.drafts else [setup.predictor] if setup.predictor else []
        is_own = setup.engine.head is None  # what was asked for goes before the model's own layer
        first = [*drafts, *of_model] if is_own else [*of_model, *drafts]
        return with_lookup(*first, long_match=PolicyConfig().long_match) if setup.lookup else first
