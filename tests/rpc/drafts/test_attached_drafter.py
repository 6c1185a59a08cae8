"""A target with an attached drafter says where its predictions come from, and answers as it does without."""

from pathlib import Path

import pytest

from outrider.v1 import common_pb2
from tests.harness.models.one_step_models import write_one_step_pair
from tests.harness.models.ring_models import write_ring_pair
from tests.harness.servers.server import target_server
from tests.rpc.harness.requests import as_unary, stream_request


@pytest.fixture(scope="module", params=[write_one_step_pair, write_ring_pair], ids=["one by one", "blocks"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    written: tuple[Path, Path] = request.param(tmp_path_factory.mktemp("pair"))
    return written


@pytest.mark.parametrize(("weights", "fronts"), [("stored", 0), ("stored", 1), ("int8", 0)])
def test_predictions_are_its_own_and_change_no_byte(pair, weights, fronts):
    model, head = pair
    request = as_unary(
        stream_request(
            speculation={"mode": common_pb2.SPECULATION_MODE_ALWAYS, "num_predictions": 3},
            sampling={"seed": 5, "temperature": 0.8},
            stop={"max_tokens": 40, "ignore_eos": True},
            output={"logprobs": True, "pass_reports": True},
        )
    )
    with target_server(model, weights=weights, lookup=False) as plain:
        expected = plain.stub.Generate(request)
    with target_server(
        model, head=head, weights=weights, lookup=False, fronts=fronts, own_process=fronts > 0
    ) as target:
        answer = target.stub.Generate(request)
    assert answer.token_ids == expected.token_ids
    assert [each.raw_logprob for each in answer.records] == [each.raw_logprob for each in expected.records]
    (stats,) = answer.finished.speculation.by_source
    assert stats.source == common_pb2.PREDICTION_SOURCE_ATTACHED
    assert stats.accepted > 0.9 * stats.predicted > 20
    drafted = [each for each in answer.pass_reports if each.source == common_pb2.PREDICTION_SOURCE_ATTACHED]
    assert all(each.waiting.ToNanoseconds() > 0 for each in drafted), "for the drafter"
    assert len(drafted) == stats.num_spec_steps
