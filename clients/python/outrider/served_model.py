"""ServedModel: one of the models that a server has."""

from dataclasses import dataclass
from enum import StrEnum

from outrider.response import parse_model_info
from outrider.types import ModelInfo
from outrider.v1 import generation_pb2


class ModelState(StrEnum):
    """Whether a model can be asked."""

    LOADING = "loading"
    """Not yet: calls raise Unavailable, after they were tried again for a while."""
    READY = "ready"
    UNKNOWN = "unknown"
    """The server gave a state that this version of the client does not know."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model by its name, which calls take as `model`."""

    name: str
    state: ModelState
    info: ModelInfo | None
    """None before it is loaded."""


_STATES = {
    generation_pb2.MODEL_STATE_LOADING: ModelState.LOADING,
    generation_pb2.MODEL_STATE_READY: ModelState.READY,
}


def parse_models(message: generation_pb2.ListModelsResponse) -> tuple[ServedModel, ...]:
    """All of them, in their order."""
    return tuple(
        ServedModel(
            name=each.name,
            state=_STATES.get(each.state, ModelState.UNKNOWN),
            info=parse_model_info(each.info) if each.HasField("info") else None,
        )
        for each in message.models
    )
