"""ServedModel: one of the models that a server has."""

from dataclasses import dataclass
from enum import StrEnum

from outrider.response import parse_model_info
from outrider.types import ModelInfo
from outrider.v1 import generation_pb2


class ModelState(StrEnum):
    """Whether a model can be asked."""

    LOADING = "loading"
    """Not yet: while the server starts, calls raise Unavailable, after they were tried again for a while; later they
    wait."""
    READY = "ready"
    UNLOADED = "unloaded"
    """It can, but is not in memory: a call has it loaded, and waits for that."""
    UNKNOWN = "unknown"
    """The server gave a state that this version of the client does not know."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model by its name, which calls take as `model`."""

    name: str
    state: ModelState
    info: ModelInfo | None
    """None before it is loaded; of one that was unloaded, as it was."""
    loaded_share: float = 0.0
    """How much of it is loaded, from 0 to 1."""


_STATES = {
    generation_pb2.MODEL_STATE_LOADING: ModelState.LOADING,
    generation_pb2.MODEL_STATE_READY: ModelState.READY,
    generation_pb2.MODEL_STATE_UNLOADED: ModelState.UNLOADED,
}


def parse_models(message: generation_pb2.ListModelsResponse) -> tuple[ServedModel, ...]:
    """All of them, in their order."""
    return tuple(
        ServedModel(
            name=each.name,
            state=_STATES.get(each.state, ModelState.UNKNOWN),
            info=parse_model_info(each.info) if each.HasField("info") else None,
            loaded_share=each.loaded_share,
        )
        for each in message.models
    )
