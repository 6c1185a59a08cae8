"""TargetModels: the models of one target, by their names."""

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Sequence as Seq

from services.engine.config import ConfigError
from services.service.errors import InvalidRequestError, Violation
from services.service.life.availability import Availability
from services.service.life.exit_code import ExitCode
from services.service.server_config import ServerConfig
from services.target.models.model_setup import ModelSetup
from services.target.models.target_model import TargetModel

_LONGEST_TOLD = 64  # characters of a name that there is not


class TargetModels:
    """The first one is for requests that name none."""

    def __init__(self, setups: Seq[ModelSetup], server: ServerConfig, availability: Availability) -> None:
        """Raises ConfigError, also where of several one has no name, or two have the same."""
        _check_names([setup.name for setup in setups])
        _check_loras(setups)
        self.all = tuple(TargetModel(setup, server, availability) for setup in setups)
        self.first = self.all[0]

    def find(self, name: str) -> TargetModel:
        """The model of that name, or with an adapter of that name; raises InvalidRequestError where there is none."""
        for model in self.all:
            if name == model.name or name in model.loras:
                return model
        allowed = ", ".join(repr(each) for model in self.all for each in (model.name, *sorted(model.loras)))
        problem = f"{name[:_LONGEST_TOLD]!r} is not served here; allowed: {allowed}"
        raise InvalidRequestError([Violation("model", problem)])

    async def open(self, on_opened: Callable[[], Awaitable[None]]) -> None:
        """Load them one after the other, and call this behind each; raises as `TargetModel.open`."""
        for model in self.all:
            await model.open()
            await on_opened()

    async def wait_ended(self) -> ExitCode:
        """Return when an engine has died or hangs."""
        tasks = [asyncio.create_task(model.wait_ended()) for model in self.all]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for task in tasks:
                task.cancel()

    async def drain(self, seconds: float, message: str) -> None:
        """As `TargetModel.drain`, for all of them at once."""
        await asyncio.gather(*(model.drain(seconds, message) for model in self.all))

    async def close(self) -> None:
        """End them all."""
        await asyncio.gather(*(model.close() for model in self.all))


def _check_names(names: Seq[str]) -> None:
    if len(names) > 1 and "" in names:
        raise ConfigError("model is given several times; each needs a name then, NAME=MODEL")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"model is {twice!r} more than once; each must have a name of its own")


def _check_loras(setups: Seq[ModelSetup]) -> None:
    """Requests may ask for an adapter where they ask for a model."""
    names = [name for setup in setups for name in (setup.name, *setup.loras)]
    if twice := next((name for setup in setups for name in setup.loras if names.count(name) > 1), None):
        raise ConfigError(
            f"lora is {twice!r}, which is the name of a model or of another adapter; each must have its own"
        )
