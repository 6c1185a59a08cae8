"""ScheduledRows: the rows of one sequence in a pass."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from services.engine.events import PredictionSource
from services.target.sequence.sequence import Sequence


@dataclass(slots=True)
class ScheduledRows:
    """A run of one sequence's tokens in a pass, followed by the predictions of its next tokens; for a guided sequence
    also a run of its negative text, with the same predictions.
    """

    sequence: Sequence
    num_tokens: int
    draws: bool  # whether the run reaches the sequence's last token, so that the next one is drawn
    num_negative: int = 0  # tokens of the negative text
    prompt_targets: list[int] = field(default_factory=list)  # known tokens whose records the rows before them give
    predictions: list[int] = field(default_factory=list)
    source: PredictionSource | None = None  # of the predictions
    waiting: float = 0.0  # seconds waited for the predictions
    position: int | None = None  # of its only row, if the pass was launched before the token there was drawn
    is_void: bool = False  # likewise: whether its sequence has no use for that row any more
    is_decode: bool = field(init=False)
    """Whether the run is the last token alone; stored, since each step reads it often."""

    def __post_init__(self) -> None:
        self.is_decode = self.draws and self.num_tokens == 1 and self.num_negative <= 1

    @property
    def num_rows(self) -> int:
        """All rows of the sequence in the pass."""
        return self.num_tokens + self.num_negative + len(self.sequence.texts) * len(self.predictions)

    @property
    def num_draws(self) -> int:
        """The number of rows from which a token is drawn."""
        return 1 + len(self.predictions) if self.draws else 0

    @property
    def num_logits(self) -> int:
        """The number of last rows of its own text whose logits are needed; of the negative text `num_draws` are."""
        return len(self.prompt_targets) + self.num_draws


def own_rows(scheduled: Iterable[ScheduledRows]) -> Iterator[tuple[int, ScheduledRows]]:
    """The index in the pass of the first row of each sequence's own text; negative texts come after all of these."""
    first = 0
    for rows in scheduled:
        yield first, rows
        first += rows.num_tokens + len(rows.predictions)
