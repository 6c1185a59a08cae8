"""StepCost: the time that a predictor's predictions cost a step."""

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.draft_config import DraftConfig
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.predictors.predictor import MOST_PREDICTIONS, Predictor


class StepCost:
    """Estimates, in seconds, from the measurements of the target's passes and of the predictor."""

    def __init__(self, predictor: Predictor, passes: PassCost, config: DraftConfig, *, waits: bool = True) -> None:
        """Without `waits` the costs are as if all predictions had come already."""
        self.passes = passes
        """The time of passes by their rows."""
        self._predictor = predictor
        self._config = config
        self._waits = waits

    def verification(self, num_rows: int, num_predictions: int) -> float:
        """How much longer a pass of `num_rows` rows takes with the predictions."""
        return self.passes.seconds(num_rows + num_predictions) - self.passes.seconds(num_rows)

    def wait(self, sequence: Sequence, length: float) -> float:
        """The usual time of `length` predictions for one sequence alone."""
        return self._predictor.wait_for(sequence, length) if self._waits else 0.0

    @property
    def wait_price(self) -> float:
        """The seconds that a second of waiting must save: more with a draft that runs ahead, since without a wait its
        predictions just come one pass later.
        """
        return self._config.ahead_wait_price if self._predictor.runs_ahead else 1.0

    def slowdown(self, num_sequences: int) -> float:
        """How many times as long predictions take for `num_sequences` sequences at once."""
        return self._predictor.slowdown(num_sequences)

    def max_wait(self, wait: float) -> float:
        """The longest wait for predictions whose usual time is `wait`."""
        return self._config.wait_margin * wait

    def prefill(self, sequence: Sequence) -> float:
        """The time that the predictor takes to catch up with a sequence. While that is unknown, the time of the target
        itself is used, which reads as many tokens in a pass as it verifies predictions.
        """
        seconds = self._predictor.catch_up(sequence)
        return len(sequence.tokens) / MOST_PREDICTIONS * self.passes.seconds(1) if seconds is None else seconds
