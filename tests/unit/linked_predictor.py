"""LinkedPredictor: a RemotePredictor with a test at the other end of its link."""

import math
from typing import Any

from services.draft_protocol.messages import Prediction, Release, TargetMessage
from services.engine.request import SpeculationPolicy
from services.target.output.output_pipeline import OutputPipeline
from services.target.sequence.sequence import Sequence
from services.target.speculation.link.remote_predictor import RemotePredictor
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.predictor import PredictionRequest
from tests.unit.sequences import make_output, make_request, records_of

RUN_AHEAD = 8
PROMPT = b"Hello"


class LinkedPredictor:
    """A predictor with one link, on which no message was sent yet."""

    def __init__(self, *, longest_wait: float = 0.0, is_connected: bool = True) -> None:
        self.num_wakes = 0
        self._outputs: dict[Sequence, OutputPipeline] = {}
        self.remote = RemotePredictor(PolicyConfig(longest_wait=longest_wait), on_outgoing=self._wake)
        if is_connected:
            self.connect()

    def connect(self, *, run_ahead: int = RUN_AHEAD) -> None:
        self.remote.connected(run_ahead=run_ahead)

    def _wake(self) -> None:
        self.num_wakes += 1

    def add(self, prompt: bytes = PROMPT, **options: Any) -> Sequence:
        output = make_output(make_request(prompt, speculation=SpeculationPolicy(num_predictions=4), **options))
        self._outputs[output.sequence] = output
        self.follow(output.sequence)
        return output.sequence

    def draw(self, sequence: Sequence, tokens: bytes) -> None:
        self._outputs[sequence].commit(records_of(tokens))
        self.follow(sequence)

    def follow(self, sequence: Sequence) -> None:
        """Take its changes, and count what has happened to it."""
        sequence.speculation.follow(self.remote.commit(sequence))

    def predict(self, sequence: Sequence, limit: int, *, max_wait: float = math.inf) -> list[int]:
        """Ask, and take what is there."""
        (token_ids,) = self.remote.predict([PredictionRequest(sequence, limit, max_wait)])
        return [*token_ids]

    def sent(self) -> list[TargetMessage]:
        return [*self.remote.outgoing()]

    def hear(self, position: int, tokens: bytes, *, epoch: int = 1, sequence_id: int = 1) -> bool:
        return self.remote.hear(Prediction(sequence_id, epoch, position, tuple(tokens)))

    def hear_release(self, sequence_id: int, reason: str) -> bool:
        return self.remote.hear(Release(sequence_id, reason))
