"""The metrics of speculation, and of the links to drafts."""

from collections.abc import Sequence as Seq

from services.engine.events import NoSpeculation, PredictionSource, SourceStats, SpeculationSeconds, SpeculationStats
from services.target.generation.engine_figures import EngineFigures
from services.target.speculation.link.draft_links import DraftLinks
from services.telemetry.metric_page import MetricPage


def add_shared(page: MetricPage, stats: SpeculationStats) -> None:
    """The metrics that other engines have too."""
    passes = sum(counts.passes for source, counts in stats.by_source.items() if source is not PredictionSource.EXPECTED)
    page.counter("spec_decode_num_drafts", "Passes of sequences with predictions.", passes)
    page.counter("spec_decode_num_draft_tokens", "Predictions that were verified.", sum(stats.offered))
    page.counter("spec_decode_num_accepted_tokens", "Predictions that were accepted.", sum(stats.accepted))
    text = "Predictions that were accepted, by their position in the pass."
    page.counter("spec_decode_num_accepted_tokens_per_pos", text, _by_position(stats.accepted), "position")


def add_predictions(page: MetricPage, figures: EngineFigures) -> None:
    """Acceptance by position and by source, and the reasons for no predictions."""
    stats = figures.speculation
    page.counter("sequence_passes", "Passes of sequences that drew a token.", stats.passes)
    text = "Predictions that were verified, by their position in the pass."
    page.counter("speculation_verified_tokens_per_pos", text, _by_position(stats.offered), "position")
    by_source = {source.name.lower(): stats.by_source.get(source, SourceStats()) for source in PredictionSource}
    passes = {source: counts.passes for source, counts in by_source.items()}
    page.counter("speculation_passes", "Passes of sequences with predictions, by source.", passes, "source")
    verified = {source: counts.offered for source, counts in by_source.items()}
    page.counter("speculation_verified_tokens", "Predictions that were verified, by source.", verified, "source")
    accepted = {source: counts.accepted for source, counts in by_source.items()}
    page.counter("speculation_accepted_tokens", "Predictions that were accepted, by source.", accepted, "source")
    page.counter("speculation_alternates_hit", "Wrong predictions whose alternate was ready.", stats.alternates)
    page.counter("speculation_draft_losses", "Times that a sequence lost its draft.", stats.losses)
    page.counter("speculation_draft_returns", "Times that a draft followed a sequence again.", stats.returns)
    reasons = {reason.name.lower(): figures.unpredicted[reason] for reason in NoSpeculation}
    page.counter("speculation_unpredicted", "Sequences that ended without predictions, by reason.", reasons, "reason")


def add_decisions(page: MetricPage, figures: EngineFigures) -> None:
    """The controllers' decisions."""
    decisions = {(kind.name.lower(), str(choice)): count for (kind, choice), count in figures.decisions.items()}
    text = "Choices in steps with sequences that leave speculation to the server."
    page.counter("speculation_decisions", text, decisions, "source", "decision")


def add_seconds(page: MetricPage, seconds: SpeculationSeconds) -> None:
    """What AUTO saves: the second sum over the first is the speedup, the third over the first the expected one."""
    text = "Seconds that sequences spent in steps with predictions that the server chose."
    page.counter("speculation_seconds", text, seconds.taken)
    text = "Seconds that their tokens in these steps would have taken without predictions."
    page.counter("speculation_plain_seconds", text, seconds.plain)
    text = "The same, as expected before the steps."
    page.counter("speculation_expected_plain_seconds", text, seconds.expected)


def add_links(page: MetricPage, links: DraftLinks, stats: SpeculationStats) -> None:
    """The links to the current drafts, up or down; drafts may be added and removed."""
    drafts = links.by_address
    counts = {address: each.counts for address, each in drafts.items()}
    up = {address: int(not each.absence) for address, each in drafts.items()}
    page.gauge("draft_link_up", "Whether the draft is linked.", up, "draft")
    arrivals = {address: each.num_arrivals for address, each in drafts.items()}
    page.counter("draft_link_arrivals", "Times that the link was opened.", arrivals, "draft")
    losses = {address: each.losses for address, each in counts.items()}
    page.counter("draft_link_losses", "Times that the link has ended.", losses, "draft")
    windows = {address: each.granted for address, each in drafts.items()}
    page.gauge("draft_link_window_tokens", "Tokens that the draft may predict ahead now.", windows, "draft")
    runs = {
        (address, use): count
        for address, each in counts.items()
        for use, count in (("useful", each.runs - each.useless_runs), ("useless", each.useless_runs))
    }
    page.counter("draft_link_runs", "Runs of predictions received, by whether they were used.", runs, "draft", "use")
    tokens = {address: each.tokens for address, each in counts.items()}
    page.counter("draft_link_tokens", "Predicted tokens received.", tokens, "draft")
    alternates = {address: each.alternates for address, each in counts.items()}
    page.counter("draft_link_alternates", "Alternates received.", alternates, "draft")
    drafted = stats.by_source.get(PredictionSource.DRAFT, SourceStats())
    wasted = {"useless": links.useless_tokens, "rejected": drafted.offered - drafted.accepted}
    page.counter("draft_link_wasted_tokens", "Predicted tokens that were wasted, by cause.", wasted, "cause")
    trips = {address: each.round_trips for address, each in counts.items()}
    text = "Seconds from asking for predictions to their arrival."
    page.histogram("draft_link_round_trip_seconds", text, trips, "draft")


def _by_position(counts: Seq[int]) -> dict[str, int]:
    return {str(position): count for position, count in enumerate(counts)}
