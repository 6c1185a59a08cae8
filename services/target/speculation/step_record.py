"""StepRecord: the requests of a step to the sources, and the time that it saved or lost with them."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.source import Source, SourcePlan, is_automatic


@dataclass(slots=True)
class StepRecord:
    """The record of one step, begun with it; times are in seconds."""

    began: float
    """When the step began, on the policy's clock."""

    plans: list[SourcePlan] = field(default_factory=list)
    """The plan of each source, in their order."""

    serving: dict[Sequence, Source] = field(default_factory=dict)
    """The source of each sequence's predictions, for those that have some."""

    num_accepted: int = 0
    """Accepted predictions of sequences with AUTO."""

    is_disturbed: bool = False
    """Whether a predictor computes on the target's cores during the pass."""

    @property
    def prefill(self) -> float:
        """The planned seconds of waiting for predictors to catch up."""
        return sum(plan.automatic.prefill for plan in self.plans)

    def gain(self, batch: Seq[ScheduledRows], passes: PassCost, computing: float) -> tuple[float, float]:
        """The seconds that predictions saved for each sequence with AUTO, and the seconds of waiting for them.

        Passes count with their average time; a disturbed pass counts with its own.
        """
        decoding = [rows for rows in batch if rows.is_decode]
        automatic = [rows for rows in decoding if is_automatic(rows.sequence)]
        num_rows = len(decoding) + sum(len(rows.predictions) for rows in automatic)
        plain, verifying = passes.seconds(len(decoding)), passes.seconds(num_rows)
        seconds = max(verifying, computing) if self.is_disturbed else verifying
        waited = sum(rows.waiting for rows in automatic)
        return self.num_accepted / len(automatic) * plain - (seconds - plain) - waited, waited
