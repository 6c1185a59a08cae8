"""Servers of two models that come and go, and requests to them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outrider.v1 import generation_pb2
from services.engine.decoder.loading_progress import LoadingProgress
from services.target.engines.model_setup import ModelSetup
from services.target.models.memory_plan import plan_memory
from services.target.models.residency_config import ResidencyConfig
from services.target.models.target_model import TargetModel
from tests.harness.servers.server import RunningTarget, engine_config, target_server
from tests.rpc.harness.requests import Streamed, stream_request

LOADING, READY, UNLOADED = (
    generation_pb2.MODEL_STATE_LOADING,
    generation_pb2.MODEL_STATE_READY,
    generation_pb2.MODEL_STATE_UNLOADED,
)
ON_DEMAND = ResidencyConfig(load_on_demand=True)
OUTPUT = {"prompt_token_ids": True, "logprobs": True}


class HeldProgress(LoadingProgress):
    """Stops where half of the weights are loaded, until the test lets it continue or end."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on, self.is_held = threading.Event(), threading.Event()

    def advance(self, share: float) -> None:
        super().advance(share)
        if share >= 0.5 and not self.is_held.is_set():
            self.is_held.set()
            self.goes_on.wait()
            super().advance(share)

    def cancel(self) -> None:
        super().cancel()
        self.goes_on.set()


def both(model: Path, other: Path) -> list[ModelSetup]:
    """Two models, by the names that requests have for them."""
    return [ModelSetup(engine=engine_config(each), name=name) for name, each in (("one", model), ("other", other))]


def budget_for_one(model: Path, other: Path) -> int:
    """Bytes that hold either of them, and not both."""
    shares = plan_memory([(each.name, each.engine) for each in both(model, other)], 1 << 40)
    return max(share.total for share in shares)


@contextmanager
def serving(model: Path, other: Path, config: ResidencyConfig, **options: Any) -> Iterator[RunningTarget]:
    """A server of both models; these options are the first one's."""
    further = [ModelSetup(engine=engine_config(other), name="other", lookup=False)]
    with target_server(model, name="one", further=further, residency=config, **options) as running:
        yield running


def ask(name: str, **fields: Any) -> generation_pb2.StreamGenerateRequest:
    """A request to a model that asks for all that its answer depends on."""
    return stream_request(model=name, output=OUTPUT, **fields)


def states(target: RunningTarget) -> dict[str, int]:
    """The state of each model by ListModels."""
    listed = target.stub.ListModels(generation_pb2.ListModelsRequest()).models
    return {each.name: each.state for each in listed}


def second(target: RunningTarget) -> TargetModel:
    """The other model."""
    return target.server.models.all[1]


def held_load(target: RunningTarget) -> HeldProgress:
    """The next load of the second model stops half-way."""
    progress = second(target).progress = HeldProgress()
    return progress


def same(answer: Streamed, expected: Streamed) -> bool:
    """Whether two answers have the same bytes."""
    return told(answer) == told(expected)


def told(answer: Streamed) -> tuple[Any, ...]:
    """The contents of an answer, to the bit."""
    bits = [(record.id, record.raw_logprob, record.processed_logprob) for record in answer.records]
    return answer.text, answer.token_ids, bits, answer.reason, answer.started.fingerprint
