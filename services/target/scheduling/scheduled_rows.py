"""ScheduledRows: a run of one sequence's tokens in a pass."""

from dataclasses import dataclass, field

from services.engine.events import PredictionSource
from services.target.sequence.sequence import Sequence


@dataclass(slots=True)
class ScheduledRows:
    """A run of one sequence's tokens in a pass, and the predictions of its next tokens behind them; where it is guided,
    a run of its negative text too, with the same predictions.
    """

    sequence: Sequence
    num_tokens: int
    draws: bool  # the run reaches the sequence's last token, so that the next one is drawn
    num_negative: int = 0  # tokens of the negative text
    prompt_targets: list[int] = field(default_factory=list)  # known tokens that the rows before tell of
    predictions: list[int] = field(default_factory=list)
    source: PredictionSource | None = None  # of the predictions
    waiting: float = 0.0  # seconds, for them

    @property
    def is_decode(self) -> bool:
        """Whether the run is the last token alone."""
        return self.draws and self.num_tokens == 1 and self.num_negative <= 1

    @property
    def num_rows(self) -> int:
        """Rows in the pass."""
        return self.num_tokens + self.num_negative + len(self.sequence.texts) * len(self.predictions)

    @property
    def num_draws(self) -> int:
        """Rows that a token is drawn from."""
        return 1 + len(self.predictions) if self.draws else 0

    @property
    def num_logits(self) -> int:
        """Rows of its own text whose logits are needed, the last ones; of the negative one they are the draws'."""
        return len(self.prompt_targets) + self.num_draws
