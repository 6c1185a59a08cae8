"""StepRecord: the requests of a step to the sources, and the time that it saved or lost with them."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.source import Source, SourcePlan


@dataclass(slots=True)
class StepRecord:
    """The record of one step, begun with it; times are in seconds."""

    began: float
    """When the step began, on the policy's clock."""

    plans: list[SourcePlan] = field(default_factory=list)
    """The plan of each source, in their order."""

    serving: dict[Sequence, Source] = field(default_factory=dict)
    """The source of each sequence's predictions, for those that have some."""

    num_accepted: dict[Sequence, int] = field(default_factory=dict)
    """Accepted predictions of the sequences with AUTO."""

    is_disturbed: bool = False
    """Whether a predictor computes on the target's cores during the pass."""

    drafting: float = 0.0
    """Seconds that an attached drafter has computed before the pass."""

    @property
    def invested(self) -> float:
        """Seconds of waiting for a draft that reads, which later gains are trusted to return."""
        return sum(plan.automatic.invested for plan in self.plans)

    def expected_speedup(self, sequence: Sequence) -> float:
        """The expected speedup of a sequence with AUTO."""
        return next((plan.own_speedups[sequence] for plan in self.plans if sequence in plan.own_speedups), 1.0)

    def seconds(
        self, automatic: Seq[ScheduledRows], *, num_decoding: int, passes: PassCost, computing: float
    ) -> tuple[float, float, float]:
        """The time of the pass without predictions for the sequences with AUTO, with them, and of the wait for them.

        `num_decoding` sequences are decoding in the pass. It counts with its expected time; a disturbed pass with its
        own, `computing`.
        """
        plain = passes.seconds(num_decoding)
        verifying = passes.seconds(num_decoding + sum(len(rows.predictions) for rows in automatic))
        seconds = max(verifying, computing) if self.is_disturbed else verifying
        return plain, seconds, self.drafting + sum(rows.waiting for rows in automatic)
