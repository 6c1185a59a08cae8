"""TargetModels: the models of one target, by their names."""

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Sequence as Seq

from services.engine.config import ConfigError, check_cpu_option
from services.service.errors import InvalidRequestError, Violation
from services.service.life.availability import Availability
from services.service.life.exit_code import ExitCode
from services.service.named_option import is_name
from services.service.server_config import ServerConfig
from services.target.engines.model_setup import ModelSetup
from services.target.models.residency import Residency
from services.target.models.residency_config import ResidencyConfig
from services.target.models.target_model import TargetModel

_LONGEST_SHOWN = 64  # characters of an unknown name in an error


class TargetModels:
    """All models of a target; requests that name none get the first one."""

    def __init__(
        self,
        setups: Seq[ModelSetup],
        server: ServerConfig,
        availability: Availability,
        residency: ResidencyConfig,
    ) -> None:
        """Raises ConfigError, also if one of several models has no name, or if two have the same name."""
        _check_names([setup.name for setup in setups])
        _check_loras(setups)
        for setup in setups:
            check_cpu_option("memory_budget", residency.memory_budget, setup.engine.device)
            if len(setups) > 1 and len(setup.engine.devices) > 1:
                # Each GPU of one would wait for others of it while they compute the other model.
                raise ConfigError(f"device is {setup.engine.device!r}; several models have one device each")
        self._ended: asyncio.Future[ExitCode] = asyncio.get_running_loop().create_future()
        self.all = tuple(TargetModel(setup, server, availability, self._end) for setup in setups)
        self.first = self.all[0]
        self.residency = Residency(self.all, residency)

    def find(self, name: str) -> TargetModel:
        """The model of that name, or with an adapter of that name; raises InvalidRequestError if there is none."""
        for model in self.all:
            if name == model.name or name in model.loras:
                return model
        allowed = ", ".join(repr(each) for model in self.all for each in (model.name, *sorted(model.loras)))
        problem = f"{name[:_LONGEST_SHOWN]!r} is not served here; allowed: {allowed}"
        raise InvalidRequestError([Violation("model", problem)])

    def with_lora(self, name: str) -> TargetModel | None:
        """The model that has an adapter of that name, if one has."""
        return next((model for model in self.all if name in model.loras), None)

    def check_new(self, name: str) -> None:
        """Raise InvalidRequestError if a model or an adapter has this name, or if the name is not allowed."""
        if not is_name(name):
            allowed = "1 to 64 letters, digits, and . _ - after the first"
            raise InvalidRequestError([Violation("name", f"is {name[:_LONGEST_SHOWN]!r}; allowed: {allowed}")])
        if any(name == model.name or name in model.loras for model in self.all):
            raise InvalidRequestError([Violation("name", f"{name!r} is the name of a model or of another adapter")])

    def process_ids(self) -> list[int]:
        """The processes of engines that have one of their own; for any thread."""
        return [process_id for model in self.all if (process_id := model.process_id) is not None]

    def follow_log_level(self) -> None:
        """Let processes of engines log messages of the same level as this one."""
        for model in self.all:
            model.follow_log_level()

    async def open(self, on_opened: Callable[[], Awaitable[None]]) -> None:
        """Load the models of the start, as `Residency.open`."""
        await self.residency.open(on_opened)

    async def wait_ended(self) -> ExitCode:
        """Return when an engine has died or hangs; the streams of a dead one have ended with errors."""
        return await asyncio.shield(self._ended)

    async def drain(self, seconds: float, message: str) -> None:
        """Drain all models at once, as `TargetModel.drain`; calls that wait for a model are refused at once."""
        self.residency.refuse(message)
        await asyncio.gather(*(model.drain(seconds, message) for model in self.all))

    async def close(self) -> None:
        """Close all models, after ending loads."""
        await self.residency.close()
        await asyncio.gather(*(model.close() for model in self.all))

    def _end(self, code: ExitCode) -> None:
        if not self._ended.done():
            self._ended.set_result(code)


def _check_names(names: Seq[str]) -> None:
    if len(names) > 1 and "" in names:
        raise ConfigError("model is given several times; each needs a name then, NAME=MODEL")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"model is {twice!r} more than once; each must have a name of its own")


def _check_loras(setups: Seq[ModelSetup]) -> None:
    """Raise ConfigError if an adapter's name is not unique; requests may give it as the model's name."""
    names = [name for setup in setups for name in (setup.name, *setup.loras)]
    if twice := next((name for setup in setups for name in setup.loras if names.count(name) > 1), None):
        raise ConfigError(
            f"lora is {twice!r}, which is the name of a model or of another adapter; each must have its own"
        )
