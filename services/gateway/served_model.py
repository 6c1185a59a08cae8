"""ServedModel: the name by which a request may ask for what the targets serve."""

from outrider import AsyncClient, ModelInfo
from services.gateway.generation.problem import Kind, Problem


class ServedModel:
    """Remembers the name, and asks for it again before a request is refused."""

    def __init__(self) -> None:
        self._name: str | None = None

    async def info(self, client: AsyncClient) -> ModelInfo:
        """All that the targets tell of the model; raises OutriderError."""
        info = await client.model_info()
        self._name = info.name
        return info

    async def check(self, name: str | None, client: AsyncClient) -> None:
        """Raise Problem for another model's name, or OutriderError where nobody can be asked."""
        if name is None or name == self._name:
            return
        if name != (served := (await self.info(client)).name):
            raise Problem(Kind.NOT_FOUND, f"model: {name!r} is not served here; allowed: {served!r}", "model")
