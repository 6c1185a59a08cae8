"""Residency: which models are in memory, and the loading of others on request."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from collections.abc import Sequence as Seq
from traceback import clear_frames
from typing import Any

from services.engine.decoder.host_memory import give_back_freed_memory
from services.service.access.caller import Caller
from services.service.errors import UnavailableError
from services.target.models.memory_plan import plan_memory
from services.target.models.residency_config import ResidencyConfig
from services.target.models.serving import Serving
from services.target.models.target_model import TargetModel

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.05  # between two checks for a model that may be unloaded
_SWEEP_SECONDS = 0.5  # between two checks for models that have been idle too long
_PATIENCE_SECONDS = 5.0  # wait for a load that must end with the server
_COOL_DOWN = 5.0  # seconds in which a model that could not be loaded is not tried again


class Residency:
    """Loads one model at a time. The least recently used models are unloaded for it once they are idle; a model that is
    in constant use is unloaded too, after a while: its new calls then wait like those for any unloaded model.

    Call `open`, and finally `close`, on one event loop.
    """

    def __init__(self, models: Seq[TargetModel], config: ResidencyConfig) -> None:
        self.is_open = False
        """Whether the models to load at the start are loaded; from then on calls load their models."""
        self._models, self._config = models, config
        self._bytes: dict[TargetModel, int] = {}
        self._used_at = dict.fromkeys(models, 0.0)
        self._loaded_at = dict.fromkeys(models, 0.0)
        self._failed_at = dict.fromkeys(models, -_COOL_DOWN)
        self._waiting = Counter[TargetModel]()  # calls
        self._leaving: set[TargetModel] = set()  # models whose new calls wait
        self._loads: dict[TargetModel, asyncio.Task[None]] = {}
        self._opening: TargetModel | None = None
        self._changing = asyncio.Lock()
        self._refusal: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._sweeper: asyncio.Task[None] | None = None

    async def open(self, on_opened: Callable[[], Awaitable[None]]) -> None:
        """Load the first model and, unless they are loaded on demand, the others in order, while the budget allows.

        `on_opened` is called after each. Raises the errors of `TargetModel.open` and `plan_memory`.
        """
        if self._config.memory_budget is not None:
            await self._plan(self._config.memory_budget)
        for number, model in enumerate(self._models):
            if number == 0 or (not self._config.load_on_demand and self._excess(model) <= 0):
                await self._open(model)
                await on_opened()
        self.is_open = True
        if self._config.unload_after is not None:
            self._sweeper = asyncio.create_task(self._sweep(self._config.unload_after))

    @property
    def can_serve(self) -> bool:
        """Whether a model is loaded or can be loaded by a call."""
        return self.is_open or self._models[0].serving is not None

    def check_open(self) -> None:
        """Raise UnavailableError if no model can be used yet."""
        if not self.can_serve:
            raise UnavailableError(f"the model is still loading: {self._models[0].progress}")

    async def enter(self, model: TargetModel, caller: Caller) -> Serving:
        """The serving of a model, which is loaded first if necessary; a call that waits counts as one of its streams.

        Nothing may be awaited between this and the call's own admission. Raises UnavailableError and OverloadedError.
        """
        self._used_at[model] = time.monotonic()
        if (serving := self._at_hand(model)) is not None:
            return serving
        with model.admissions.streams.admit(1, caller):
            self._waiting[model] += 1
            try:
                while (serving := self._at_hand(model)) is None:
                    await self._wait(model)
            finally:
                self._waiting[model] -= 1
        return serving

    def is_loading(self, model: TargetModel) -> bool:
        """Whether the model is being loaded, or waits for that."""
        return model in self._loads

    def refuse(self, reason: str) -> None:
        """Refuse all calls that wait, for this reason."""
        if not self._refusal.done():
            self._refusal.set_result(reason)

    async def close(self) -> None:
        """Cancel loads and wait until they have ended, except for a download."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        loads = dict(self._loads)
        for model, load in loads.items():
            if model is self._opening:  # whose thread cannot be cancelled
                model.progress.cancel()
            else:
                load.cancel()
        if loads:
            await asyncio.wait(loads.values(), timeout=_PATIENCE_SECONDS)

    def _at_hand(self, model: TargetModel) -> Serving | None:
        return None if model in self._leaving else model.serving

    async def _wait(self, model: TargetModel) -> None:
        """Return when the model was loaded; it may already be unloaded again. Raises UnavailableError."""
        if not self.is_open:
            raise UnavailableError(f"the model is still loading: {model.progress}")
        if time.monotonic() < self._failed_at[model] + _COOL_DOWN:
            raise UnavailableError(_failure(model))
        if (load := self._loads.get(model)) is None:
            load = self._loads[model] = asyncio.create_task(self._load(model))
            load.add_done_callback(lambda _: self._loads.pop(model))
        waited: list[asyncio.Future[Any]] = [load, self._refusal]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if self._refusal.done():
            raise UnavailableError(self._refusal.result())

    async def _load(self, model: TargetModel) -> None:
        """Load a model as soon as there is room, unless no call waits any more; if it is to leave, it leaves first."""
        try:
            while self._waiting[model] and self._at_hand(model) is None:
                if model in self._leaving or not await self._load_if_room(model):
                    await asyncio.sleep(_POLL_SECONDS)
        except Exception as error:  # any error of one model must not affect the others
            self._failed_at[model] = time.monotonic()
            logger.exception("%s", _failure(model))
            clear_frames(error.__traceback__)  # free what was loaded before the error
        finally:
            self._leaving.clear()

    async def _load_if_room(self, model: TargetModel) -> bool:
        async with self._changing:
            if self._excess(model) > 0 and not await self._make_room(model):
                return False
            if self._waiting[model]:  # the calls may have ended while other models were loaded
                await self._open(model)
            return True

    async def _open(self, model: TargetModel) -> None:
        self._opening = model
        try:
            await model.open()
        finally:
            self._opening = None
        self._loaded_at[model] = self._used_at[model] = time.monotonic()

    async def _make_room(self, model: TargetModel) -> bool:
        """Unload idle models if that is enough, the least recently used first; otherwise let busy ones leave."""
        loaded = [each for each in self._models if each.serving is not None]
        idle = sorted(filter(self._is_idle, loaded), key=lambda each: self._used_at[each])
        missing = self._excess(model) - sum(self._bytes[each] for each in idle)
        if missing > 0:
            self._let_leave([each for each in loaded if each not in idle], missing)
            return False
        for each in idle:
            if self._excess(model) > 0 and self._is_idle(each):
                await self._unload(each, "to make room")
        return self._excess(model) <= 0

    def _let_leave(self, busy: Seq[TargetModel], missing: int) -> None:
        """Make new calls to some busy models wait, so that they become idle and free the missing bytes, if they can.

        The models that were loaded longest ago are chosen, except those with sessions, which would not become idle.
        """
        self._leaving = {each for each in self._leaving if not each.num_sessions}
        latest = time.monotonic() - self._config.least_stay
        may_go = [each for each in busy if self._loaded_at[each] <= latest and not each.num_sessions]
        if sum(self._bytes[each] for each in may_go) < missing:
            return
        for each in sorted(may_go, key=lambda each: self._loaded_at[each]):
            if missing > 0:
                self._leaving.add(each)
                missing -= self._bytes[each]

    def _is_idle(self, model: TargetModel) -> bool:
        """Whether nothing uses the model; calls that wait for it count as use, unless it is to leave."""
        waiting = self._waiting[model]
        return model.num_at_work == waiting and (not waiting or model in self._leaving)

    async def _unload(self, model: TargetModel, why: str) -> None:
        logger.info("unloading %s %s", model.name, why)
        await model.close()
        await asyncio.to_thread(give_back_freed_memory)

    async def _sweep(self, unload_after: float) -> None:
        while True:
            await asyncio.sleep(min(_SWEEP_SECONDS, unload_after))
            for model in self._models:
                if model.serving is None or not self._is_idle(model):
                    self._used_at[model] = time.monotonic()
                elif not self._changing.locked() and time.monotonic() >= self._used_at[model] + unload_after:
                    async with self._changing:
                        await self._unload(model, f"which nobody has asked for {unload_after:g} s")

    async def _plan(self, budget: int) -> None:
        """Divide the budget; from then on each model has its share, whichever models are loaded."""
        configs = [(model.name or str(model.config.model), model.config) for model in self._models]
        shares = await asyncio.to_thread(plan_memory, configs, budget)
        for model, share in zip(self._models, shares, strict=True):
            model.config, self._bytes[model] = share.engine, share.total
            text = "model %s takes %s bytes of weights and %s of KV cache, of a budget of %s"
            logger.info(text, model.name or share.engine.model, share.weights, share.cache, budget)

    def _excess(self, model: TargetModel) -> int:
        """Bytes by which the budget is too small for the model beside the loaded ones."""
        if self._config.memory_budget is None:
            return 0
        loaded = sum(self._bytes[each] for each in self._models if each.serving is not None)
        return loaded + self._bytes[model] - self._config.memory_budget


def _failure(model: TargetModel) -> str:
    return f"{model.name!r} could not be loaded; the log of its server says why"
