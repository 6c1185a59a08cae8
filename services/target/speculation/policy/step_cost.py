"""StepCost: what a predictor's predictions cost a step."""

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.draft_config import DraftConfig
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS, Predictor


class StepCost:
    """Times are in seconds, as far as the target's passes and the predictor were measured."""

    def __init__(self, predictor: Predictor, passes: PassCost, config: DraftConfig, *, waits: bool = True) -> None:
        """With `waits` off it counts as if all predictions had come already."""
        self.passes = passes
        """What passes take, by their rows."""
        self._predictor = predictor
        self._config = config
        self._waits = waits

    def verification(self, num_rows: int, num_predictions: int) -> float:
        """How much longer a pass of so many rows takes with the predictions."""
        return self.passes.seconds(num_rows + num_predictions) - self.passes.seconds(num_rows)

    def wait(self, sequence: Sequence, length: float) -> float:
        """How long so many predictions for a sequence alone usually take."""
        return self._predictor.wait_for(sequence, length) if self._waits else 0.0

    @property
    def wait_price(self) -> float:
        """What a second of waiting is to bring, in seconds: with a draft that runs ahead, not to wait costs nothing but
        that its predictions come a pass later.
        """
        return self._config.ahead_wait_price if self._predictor.runs_ahead else 1.0

    def slowdown(self, num_sequences: int) -> float:
        """How many times as long they take where as many are predicted for each of so many sequences."""
        return self._predictor.slowdown(num_sequences)

    def max_wait(self, wait: float) -> float:
        """How long predictions are waited for that usually take so long."""
        return self._config.wait_margin * wait

    def prefill(self, sequence: Sequence) -> float:
        """How long the predictor takes to catch up with a sequence; while nobody knows, as long as the target itself at
        most, which reads as many tokens as it verifies predictions in about one pass.
        """
        seconds = self._predictor.catch_up(sequence)
        return len(sequence.tokens) / MOST_PREDICTIONS * self.passes.seconds(1) if seconds is None else seconds
