"""StepRecord: what a step has asked of the sources, and what it has won or lost by that."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.source import Source, SourcePlan, is_automatic


@dataclass(slots=True)
class StepRecord:
    """Begins with the step; times are in seconds."""

    began: float
    """When it did, on the policy's clock."""

    plans: list[SourcePlan] = field(default_factory=list)
    """What was asked of each source, in their order."""

    serving: dict[Sequence, Source] = field(default_factory=dict)
    """Whose predictions are verified for a sequence, where there are any."""

    num_accepted: int = 0
    """Predictions that were accepted for sequences that leave the choice to us."""

    is_disturbed: bool = False
    """Whether a predictor is at work on the target's cores during the pass."""

    @property
    def prefill(self) -> float:
        """Of the time that was waited at most, what predictors needed to catch up."""
        return sum(plan.automatic.prefill for plan in self.plans)

    def gain(self, batch: Seq[ScheduledRows], passes: PassCost, computing: float) -> tuple[float, float]:
        """How many seconds predictions have won for each sequence that leaves the choice to us, and how long these were
        waited for. Passes are counted as what they take on average; one that was disturbed, as what it took.
        """
        decoding = [rows for rows in batch if rows.is_decode]
        automatic = [rows for rows in decoding if is_automatic(rows.sequence)]
        num_rows = len(decoding) + sum(len(rows.predictions) for rows in automatic)
        plain, verifying = passes.seconds(len(decoding)), passes.seconds(num_rows)
        seconds = max(verifying, computing) if self.is_disturbed else verifying
        waited = sum(rows.waiting for rows in automatic)
        return self.num_accepted / len(automatic) * plain - (seconds - plain) - waited, waited
