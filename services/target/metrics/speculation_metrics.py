"""The metrics of predictions, and of the links to the drafts that make them."""

from collections.abc import Sequence as Seq

from services.engine.events import NoSpeculation, PredictionSource, SourceStats, SpeculationStats
from services.target.metrics.request_statistics import RequestStatistics
from services.target.speculation.link.draft_links import DraftLinks
from services.target.speculation.speculation import Speculation
from services.telemetry.metric_page import MetricPage


def add_shared(page: MetricPage, stats: SpeculationStats) -> None:
    """What other engines tell of predictions too."""
    passes = sum(counts.passes for counts in stats.by_source.values())
    page.counter("spec_decode_num_drafts", "Passes of sequences with predictions.", passes)
    page.counter("spec_decode_num_draft_tokens", "Predictions that were verified.", sum(stats.offered))
    page.counter("spec_decode_num_accepted_tokens", "Predictions that came true.", sum(stats.accepted))
    text = "Predictions that came true, by their place in the pass."
    page.counter("spec_decode_num_accepted_tokens_per_pos", text, _by_position(stats.accepted), "position")


def add_predictions(page: MetricPage, statistics: RequestStatistics, stats: SpeculationStats) -> None:
    """Acceptance by position and by source, and why there was nothing to accept."""
    page.counter("sequence_passes", "Passes of sequences that drew a token.", stats.passes)
    text = "Predictions that were verified, by their place in the pass."
    page.counter("speculation_verified_tokens_per_pos", text, _by_position(stats.offered), "position")
    by_source = {source.name.lower(): stats.by_source.get(source, SourceStats()) for source in PredictionSource}
    passes = {source: counts.passes for source, counts in by_source.items()}
    page.counter("speculation_passes", "Passes of sequences with predictions, by whose.", passes, "source")
    verified = {source: counts.offered for source, counts in by_source.items()}
    page.counter("speculation_verified_tokens", "Predictions that were verified, by whose.", verified, "source")
    accepted = {source: counts.accepted for source, counts in by_source.items()}
    page.counter("speculation_accepted_tokens", "Predictions that came true, by whose.", accepted, "source")
    page.counter("speculation_alternates_hit", "Wrong predictions whose alternate was ready.", stats.alternates)
    page.counter("speculation_draft_losses", "Times that a sequence lost its draft.", stats.losses)
    page.counter("speculation_draft_returns", "Times that it was followed again.", stats.returns)
    reasons = {reason.name.lower(): statistics.unpredicted[reason] for reason in NoSpeculation}
    page.counter("speculation_unpredicted", "Sequences that ended without predictions, by why.", reasons, "reason")


def add_decisions(page: MetricPage, speculation: Speculation) -> None:
    """What the controllers chose."""
    decisions = {(kind.name.lower(), str(choice)): count for (kind, choice), count in speculation.decisions().items()}
    text = "What was chosen in steps with sequences that leave speculation to the server."
    page.counter("speculation_decisions", text, decisions, "source", "decision")


def add_links(page: MetricPage, links: DraftLinks, stats: SpeculationStats) -> None:
    """The links to the drafts that there are just now, linked or not: drafts come and go."""
    predictors = links.by_address
    counts = {address: each.counts for address, each in predictors.items()}
    up = {address: int(not each.absence) for address, each in predictors.items()}
    page.gauge("draft_link_up", "Whether the draft is there.", up, "draft")
    arrivals = {address: each.num_arrivals for address, each in predictors.items()}
    page.counter("draft_link_arrivals", "Times that the draft has come.", arrivals, "draft")
    losses = {address: each.losses for address, each in counts.items()}
    page.counter("draft_link_losses", "Times that the link has ended.", losses, "draft")
    windows = {address: each.granted for address, each in predictors.items()}
    page.gauge("draft_link_window_tokens", "Tokens that the draft may predict ahead now.", windows, "draft")
    runs = {
        (address, use): count
        for address, each in counts.items()
        for use, count in (("useful", each.runs - each.useless_runs), ("useless", each.useless_runs))
    }
    page.counter(
        "draft_link_runs", "Runs of predictions that have come, by whether they were of use.", runs, "draft", "use"
    )
    tokens = {address: each.tokens for address, each in counts.items()}
    page.counter("draft_link_tokens", "Predicted tokens that have come.", tokens, "draft")
    alternates = {address: each.alternates for address, each in counts.items()}
    page.counter("draft_link_alternates", "Alternates that have come.", alternates, "draft")
    drafted = stats.by_source.get(PredictionSource.DRAFT, SourceStats())
    wasted = {"useless": links.useless_tokens, "rejected": drafted.offered - drafted.accepted}
    page.counter("draft_link_wasted_tokens", "Predicted tokens that were of no use, by why.", wasted, "cause")
    trips = {address: each.round_trips for address, each in counts.items()}
    text = "Seconds from asking for predictions to their arrival."
    page.histogram("draft_link_round_trip_seconds", text, trips, "draft")


def _by_position(counts: Seq[int]) -> dict[str, int]:
    return {str(position): count for position, count in enumerate(counts)}
