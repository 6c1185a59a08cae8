"""The figures of the final message equal a count over the passes."""

from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st

from outrider.response import parse_chunk, parse_speculation
from outrider.token_record import RejectedPrediction
from outrider.types import PassReport, PredictionSource, SourceStats
from outrider.v1 import common_pb2, generation_pb2
from services.engine.events import PassReport as EnginePassReport
from services.engine.events import PredictionSource as EngineSource
from services.engine.events import SpeculationStats, TokenRecord
from services.target.api.responses import write_pass_report, write_speculation
from tests.unit.sequences import byte_tokenizer

FROM_A_NEWER_SERVER = 99
EXPECTED = EngineSource.EXPECTED  # which is counted apart


@st.composite
def passes(draw: st.DrawFn) -> tuple[EngineSource | None, int, int]:
    """A pass: the source of its predictions, how many there were, and how many were right."""
    num_offered = draw(st.integers(0, 15))
    source = draw(st.sampled_from([each for each in EngineSource if each is not EXPECTED])) if num_offered else None
    return source, num_offered, draw(st.integers(0, num_offered))


@given(st.lists(passes(), max_size=30))
def test_figures_are_those_of_the_passes(all_passes: list[tuple[EngineSource | None, int, int]]) -> None:
    stats = SpeculationStats()
    for one in all_passes:
        stats.count(*one)
    message = write_speculation(stats)
    accepted = [num_accepted for source, _, num_accepted in all_passes if source is not None]
    offered = sum(num_offered for _, num_offered, _ in all_passes)
    assert (message.passes, message.predicted, message.accepted) == (len(all_passes), offered, sum(accepted))
    assert message.num_spec_steps == len(accepted)
    assert list(message.acceptance_histogram) == [accepted.count(i) for i in range(max(accepted, default=-1) + 1)]
    assert message.mean_acceptance_length == (1 + sum(accepted) / len(accepted) if accepted else 0)
    assert message.draft_acceptance_rate == (sum(accepted) / offered if offered else 0)
    for entry in message.by_source:
        own = [one for one in all_passes if one[0] is EngineSource(entry.source)]
        assert (entry.num_spec_steps, entry.predicted, entry.accepted) == (
            len(own),
            sum(num_offered for _, num_offered, _ in own),
            sum(num_accepted for _, _, num_accepted in own),
        )
    sources = [entry.source for entry in message.by_source]
    assert sources == sorted({source.value for source, _, _ in all_passes if source is not None})


def test_expected_tokens_are_counted_by_their_source_only() -> None:
    stats = SpeculationStats()
    for one in ((EngineSource.DRAFT, 3, 1), (EXPECTED, 256, 250), (None, 0, 0)):
        stats.count(*one)
    message = write_speculation(stats)
    assert (message.passes, message.predicted, message.accepted, message.tokens_per_pass) == (3, 259, 251, 1 + 251 / 3)
    assert (message.num_spec_steps, message.mean_acceptance_length, len(message.by_position)) == (1, 2, 3)
    assert [(each.predicted, each.accepted) for each in message.by_source] == [(3, 1), (256, 250)]


def test_an_example_as_vllm_reports_it() -> None:
    """43 passes with three predictions each: https://github.com/vllm-project/vllm/pull/48915."""
    stats = SpeculationStats()
    for num_accepted in [0] * 39 + [1] + [3] * 3:
        stats.count(EngineSource.DRAFT, 3, num_accepted)
    message = write_speculation(stats)
    assert list(message.acceptance_histogram) == [39, 1, 0, 3]
    assert message.mean_acceptance_length == 1.2325581395348837
    assert message.draft_acceptance_rate == 0.07751937984496124


def test_a_report_has_the_figures_of_its_pass() -> None:
    report = EnginePassReport(
        EngineSource.LOOKUP, (*b"abcde",), 0.25, 1.5, 0.125, num_tokens=4, num_accepted=3, num_right=3
    )
    message = write_pass_report(report, byte_tokenizer())
    assert [(one.id, one.bytes, one.text) for one in message.rejected] == [(100, b"d", "d"), (101, b"e", "e")]
    message.ClearField("rejected")
    assert MessageToDict(message) == {
        "tokens": 4,
        "predicted": 5,
        "accepted": 3,
        "source": "PREDICTION_SOURCE_LOOKUP",
        "waiting": "0.250s",
        "verifying": "1.500s",
        "host": "0.125s",
    }


def test_the_client_reads_them() -> None:
    stats = SpeculationStats()
    for one in [(EngineSource.DRAFT, 4, 2), (EngineSource.LOOKUP, 3, 3), (None, 0, 0)]:
        stats.count(*one)
    read = parse_speculation(write_speculation(stats))
    assert (read.num_spec_steps, read.mean_acceptance_length, read.draft_acceptance_rate) == (2, 3.5, 5 / 7)
    assert read.acceptance_histogram == (0, 0, 1, 1)
    assert (read.speedup, read.expected_speedup) == (0.0, 0.0)
    stats.seconds.add(2.0, 3.0, expected_speedup=1.25)
    read = parse_speculation(write_speculation(stats))
    assert (read.speedup, read.expected_speedup) == (1.5, 1.25)
    assert read.by_source == (
        SourceStats(PredictionSource.DRAFT, 1, 4, 2),
        SourceStats(PredictionSource.LOOKUP, 1, 3, 3),
    )
    report = write_pass_report(EnginePassReport(None, (100,), 0.0, 1.5, num_tokens=1), byte_tokenizer())
    record = common_pb2.TokenRecord(id=7, predicted=True, prediction_source=common_pb2.PREDICTION_SOURCE_DRAFT)
    chunk = parse_chunk(generation_pb2.Chunk(token_ids=[7], records=[record], pass_reports=[report]))
    rejected = (RejectedPrediction(100, b"d", "d"),)
    assert chunk.pass_reports == (PassReport(1, 1, 0, None, waiting=0.0, verifying=1.5, host=None, rejected=rejected),)
    assert chunk.tokens[0].prediction_source is PredictionSource.DRAFT


def test_the_client_bears_a_source_that_it_does_not_know() -> None:
    unknown = {"source": FROM_A_NEWER_SERVER}
    read = parse_speculation(common_pb2.SpeculationStats(by_source=[unknown]))
    assert read.by_source == (SourceStats(PredictionSource.UNKNOWN, 0, 0, 0),)
    chunk = parse_chunk(generation_pb2.Chunk(pass_reports=[unknown], records=[{"prediction_source": 99}]))
    assert chunk.pass_reports[0].source is chunk.tokens[0].prediction_source is PredictionSource.UNKNOWN


def test_right_predictions_before_a_ban_are_not_rejected() -> None:
    drawn = [TokenRecord(token_id, source=EngineSource.DRAFT) for token_id in b"ab"] + [TokenRecord(99)]
    report = EnginePassReport(EngineSource.DRAFT, (*b"abd",), 0.0, 1.0).completed(drawn, drawn[:1])
    assert (report.num_tokens, report.num_accepted, report.rejected) == (1, 1, (100,))
