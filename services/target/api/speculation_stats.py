"""Speculation: what predictions were made and what became of them, as messages."""

from itertools import pairwise

from outrider.v1 import common_pb2
from services.draft_protocol.sampling import write_vocabulary_match
from services.engine.events import NoSpeculation, PassReport, PredictionSource, SpeculationStats
from services.target.api.durations import write_duration

_SOURCES = {
    None: common_pb2.PREDICTION_SOURCE_UNSPECIFIED,
    PredictionSource.DRAFT: common_pb2.PREDICTION_SOURCE_DRAFT,
    PredictionSource.LOOKUP: common_pb2.PREDICTION_SOURCE_LOOKUP,
}
_NO_SPECULATION = {
    NoSpeculation.FORBIDDEN: common_pb2.NO_SPECULATION_REASON_FORBIDDEN,
    NoSpeculation.NO_PREDICTOR: common_pb2.NO_SPECULATION_REASON_NO_PREDICTOR,
    NoSpeculation.UNAVAILABLE: common_pb2.NO_SPECULATION_REASON_UNAVAILABLE,
    NoSpeculation.SLOWER: common_pb2.NO_SPECULATION_REASON_SLOWER,
}


def write_source(source: PredictionSource | None) -> common_pb2.PredictionSource.ValueType:
    """Where a prediction came from, if there was one."""
    return _SOURCES[source]


def write_pass_report(report: PassReport) -> common_pb2.PassReport:
    """What one pass did."""
    return common_pb2.PassReport(
        tokens=report.num_tokens,
        predicted=report.num_predicted,
        accepted=report.num_accepted,
        source=write_source(report.source),
        waiting=write_duration(report.waiting),
        verifying=write_duration(report.verifying),
        host=None if report.host is None else write_duration(report.host),
    )


def write_speculation(stats: SpeculationStats) -> common_pb2.SpeculationStats:
    """What speculation did for one generation."""
    predicted, accepted = sum(stats.offered), sum(stats.accepted)
    histogram = _histogram(stats)
    num_spec_steps = sum(histogram)
    message = common_pb2.SpeculationStats(
        passes=stats.passes,
        predicted=predicted,
        accepted=accepted,
        tokens_per_pass=1 + accepted / stats.passes if stats.passes else 0,
        by_position=[
            common_pb2.PositionAcceptance(offered=offered, accepted=accepted)
            for offered, accepted in zip(stats.offered, stats.accepted, strict=True)
        ],
        alternates=stats.alternates,
        draft_losses=stats.losses,
        draft_returns=stats.returns,
        num_spec_steps=num_spec_steps,
        mean_acceptance_length=1 + accepted / num_spec_steps if num_spec_steps else 0,
        draft_acceptance_rate=accepted / predicted if predicted else 0,
        acceptance_histogram=histogram,
        by_source=_write_sources(stats),
        draft_vocabulary=write_vocabulary_match(stats.vocabulary),
    )
    if not stats.offered and stats.why_not is not None:
        message.no_speculation_reason = _NO_SPECULATION[stats.why_not]
        message.no_speculation_detail = stats.detail
    return message


def _histogram(stats: SpeculationStats) -> list[int]:
    """How many passes with predictions accepted 0, 1, ... of them: each position's count less the next one's."""
    at_least = [*stats.offered[:1], *(count for count in stats.accepted if count)]
    return [more - less for more, less in pairwise([*at_least, 0])]


def _write_sources(stats: SpeculationStats) -> list[common_pb2.SourceStats]:
    return [
        common_pb2.SourceStats(
            source=write_source(source),
            num_spec_steps=counts.passes,
            predicted=counts.offered,
            accepted=counts.accepted,
        )
        for source, counts in sorted(stats.by_source.items(), key=lambda item: item[0].value)
    ]
