"""DraftCounts: the drafter's counters, for its metrics."""

from dataclasses import dataclass, field

from services.draft_protocol.messages import ReleaseReason


@dataclass(slots=True)
class DraftCounts:
    """Written by the engine thread; any thread may read."""

    steps: int = 0
    seconds: float = 0.0  # spent in these steps
    rows: int = 0  # computed tokens, committed or predicted
    tokens: int = 0  # predicted, except those of alternates
    runs: int = 0  # sent
    alternates: int = 0  # sent
    sequences: int = 0  # begun
    releases: dict[ReleaseReason, int] = field(default_factory=lambda: dict.fromkeys(ReleaseReason, 0))
