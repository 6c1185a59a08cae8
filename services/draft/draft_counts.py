"""DraftCounts: what the drafter has done, for whoever scrapes it."""

from dataclasses import dataclass, field

from services.draft_protocol.messages import ReleaseReason


@dataclass(slots=True)
class DraftCounts:
    """Written by the engine thread; any thread may read."""

    steps: int = 0
    seconds: float = 0.0  # that these took
    rows: int = 0  # tokens of targets and of chains that were computed
    tokens: int = 0  # predicted, those of alternates aside
    runs: int = 0  # told
    alternates: int = 0  # told
    sequences: int = 0  # that were begun
    releases: dict[ReleaseReason, int] = field(default_factory=lambda: dict.fromkeys(ReleaseReason, 0))
