"""What a request may ask of speculation, and what is reported of it, through the RPCs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.v1 import common_pb2
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.requests import Streamed, as_unary, stream, stream_request

PROMPT = [5, 77, 130, 21, 300, 42, 9] * 8
COUNT = 48  # tokens generated
LOOKUP = common_pb2.PREDICTION_SOURCE_LOOKUP
ALWAYS = common_pb2.SPECULATION_MODE_ALWAYS
REPORTED = {"pass_reports": True, "token_records": True}


@pytest.fixture(scope="module")
def lookup_target(model: Path) -> Iterator[RunningTarget]:
    with target_server(model, lookup=True) as running:
        yield running
        running.assert_all_free()


def request(speculation: dict[str, Any], **output: Any) -> Any:
    stop = {"max_tokens": COUNT, "ignore_eos": True}
    return stream_request(PROMPT, stop=stop, sampling={"temperature": 0.0}, speculation=speculation, output=output)


def generate(target: RunningTarget, speculation: dict[str, Any], **output: Any) -> Streamed:
    return stream(target, request(speculation, **output))


def reports_of(streamed: Streamed) -> list[common_pb2.PassReport]:
    return [report for chunk in streamed.chunks for report in chunk.pass_reports]


def test_pass_reports_come_with_the_tokens_of_their_passes(lookup_target: RunningTarget) -> None:
    streamed = generate(lookup_target, {"mode": ALWAYS}, **REPORTED)
    for chunk in streamed.chunks:
        assert sum(report.tokens for report in chunk.pass_reports) == len(chunk.token_ids)
    reports, stats = reports_of(streamed), streamed.finished.speculation
    assert len(reports) == stats.passes
    assert sum(report.predicted for report in reports) == stats.predicted > 0
    assert sum(report.accepted for report in reports) == stats.accepted
    position = 0
    for report in reports:
        corrected = streamed.records[position + report.accepted :][: report.tokens - report.accepted]
        assert len(report.rejected) == report.predicted - report.accepted
        assert all(one.id != record.id for one, record in zip(report.rejected, corrected, strict=False))
        position += report.tokens
    assert {report.source for report in reports if report.predicted} == {LOOKUP}
    assert {report.source for report in reports if not report.predicted} <= {common_pb2.PREDICTION_SOURCE_UNSPECIFIED}
    assert sum(record.prediction_source == LOOKUP for record in streamed.records) == stats.accepted
    assert [report.HasField("host") for report in reports] == [False, *[True] * (stats.passes - 1)]
    assert reports_of(generate(lookup_target, {"mode": ALWAYS})) == []
    assert reports_of(generate(lookup_target, {"mode": ALWAYS}, pass_reports=False)) == []


def test_both_rpcs_report_the_same_passes(lookup_target: RunningTarget) -> None:
    wanted = request({"mode": ALWAYS}, **REPORTED)
    streamed, whole = stream(lookup_target, wanted), lookup_target.stub.Generate(as_unary(wanted))

    def counts(reports: Any) -> list[tuple[int, int, int, int]]:
        return [(report.tokens, report.predicted, report.accepted, report.source) for report in reports]

    assert counts(whole.pass_reports) == counts(reports_of(streamed))
    assert whole.finished.speculation == streamed.finished.speculation


@pytest.mark.parametrize("lookup", [True, False, None])
def test_the_lookup_is_used_where_the_request_does_not_forbid_it(
    lookup_target: RunningTarget, lookup: bool | None
) -> None:
    streamed = generate(lookup_target, {"mode": ALWAYS, "lookup": lookup})
    sources = {entry.source for entry in streamed.finished.speculation.by_source}
    assert sources == (set() if lookup is False else {LOOKUP})
    assert streamed.token_ids == generate(lookup_target, {"mode": common_pb2.SPECULATION_MODE_NEVER}).token_ids


def test_mode_never_is_reported_as_forbidden(lookup_target: RunningTarget) -> None:
    stats = generate(lookup_target, {"mode": common_pb2.SPECULATION_MODE_NEVER, "lookup": False}).finished.speculation
    assert stats.no_speculation_reason == common_pb2.NO_SPECULATION_REASON_FORBIDDEN


def test_a_server_without_lookup_reports_no_predictor(target: RunningTarget) -> None:
    stats = generate(target, {"mode": ALWAYS, "lookup": True}).finished.speculation
    assert (stats.predicted, stats.no_speculation_reason) == (0, common_pb2.NO_SPECULATION_REASON_NO_PREDICTOR)
    assert stats.no_speculation_detail == "there is no draft, no head, and no lookup"
