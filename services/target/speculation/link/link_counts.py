"""LinkCounts: counters of all links to one draft."""

from bisect import bisect_left
from dataclasses import dataclass, field

from services.draft_protocol.messages import AlternatePrediction, Prediction
from services.telemetry.histogram import Histogram

_SECONDS = (0.0005, 0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0)


@dataclass(slots=True)
class LinkCounts:
    """Written where the link is read; any thread may read."""

    losses: int = 0
    runs: int = 0  # alternates included
    useless_runs: int = 0  # too late, contradicted, or against the protocol
    tokens: int = 0
    useless_tokens: int = 0
    alternates: int = 0
    round_trips: Histogram = field(default_factory=lambda: Histogram(_SECONDS))
    """Seconds from asking for predictions to their arrival."""

    def add(self, run: Prediction | AlternatePrediction, *, is_useful: bool) -> None:
        """Count a run or an alternate."""
        is_alternate = isinstance(run, AlternatePrediction)
        num_tokens = len(run.token_ids) + is_alternate
        self.runs += 1
        self.tokens += num_tokens
        self.alternates += is_alternate
        self.useless_runs += not is_useful
        self.useless_tokens += 0 if is_useful else num_tokens

    def add_round_trip(self, seconds: float) -> None:
        """Count predictions that came `seconds` after the request for them."""
        self.round_trips.counts[bisect_left(_SECONDS, seconds)] += 1
        self.round_trips.sum += seconds
