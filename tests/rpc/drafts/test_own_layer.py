"""A model's own layer for multi-token prediction predicts for it, in each format, and changes no byte."""

from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

from outrider.v1 import common_pb2, generation_pb2
from services.engine import loaded_drafter
from tests.harness.models.further_checkpoints import Further
from tests.harness.models.gguf_files import write_gguf
from tests.harness.models.mtp_folders import write_mtp_folder, write_one_step_model
from tests.harness.servers.server import target_server
from tests.rpc.harness.predictors import SlippingPredictor
from tests.rpc.harness.requests import as_unary, stream_request

Q8_0 = gguf.GGMLQuantizationType.Q8_0
ALWAYS = {"mode": common_pb2.SPECULATION_MODE_ALWAYS, "num_predictions": 3}
Source = Callable[[Path], Path]
MODELS: dict[str, tuple[Source, str]] = {
    "dense": (lambda path: write_one_step_model(Further.QWEN3_5, path), "bf16"),
    "dense, int8": (lambda path: write_one_step_model(Further.QWEN3_5, path), "int8"),
    "dense, int4": (lambda path: write_one_step_model(Further.QWEN3_5, path), "int4"),
    "experts with sigmoids": (lambda path: write_one_step_model(Further.GLM4_MOE, path), "int8"),
    "latent vectors": (lambda path: write_one_step_model(Further.GLM4_MOE_LITE, path), "bf16"),
    "experts": (lambda path: write_one_step_model(Further.QWEN3_NEXT, path), "bf16"),
    "experts in a GGUF file": (
        lambda path: write_gguf(write_one_step_model(Further.QWEN3_5_MOE, path), path / "model.gguf", Q8_0),
        "stored",
    ),
}


def request(**sampling: float) -> generation_pb2.GenerateRequest:
    return as_unary(
        stream_request(
            speculation=ALWAYS,
            sampling={"seed": 5, **sampling},
            stop={"max_tokens": 60, "ignore_eos": True},
            output={"logprobs": True},
        )
    )


@pytest.mark.parametrize(("source", "weights"), MODELS.values(), ids=MODELS)
def test_predictions_of_a_layer_that_is_right_are_accepted(tmp_path, source, weights):
    model = source(tmp_path)
    requests = [request(temperature=temperature) for temperature in (0.0, 1.0)]
    with target_server(model, weights=weights) as plain:
        expected = [plain.stub.Generate(each) for each in requests]
        assert not plain.stub.GetModelInfo(generation_pb2.GetModelInfoRequest()).head
    with target_server(model, weights=weights, uses_mtp=True) as target:
        answers = [target.stub.Generate(each) for each in requests]
        assert target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest()).head == "mtp"
    for answer, plain_answer in zip(answers, expected, strict=True):
        assert answer.token_ids == plain_answer.token_ids
        assert [each.raw_logprob for each in answer.records] == [each.raw_logprob for each in plain_answer.records]
        (stats,) = answer.finished.speculation.by_source
        assert stats.source == common_pb2.PREDICTION_SOURCE_ATTACHED
        assert stats.accepted > 0.99 * stats.predicted > 30


def test_a_random_layer_changes_no_byte(tmp_path):
    model = write_mtp_folder(Further.QWEN3_5_PICTURES, tmp_path)
    asked = request(temperature=0.7)
    with target_server(model) as plain:
        expected = plain.stub.Generate(asked)
    with target_server(model, uses_mtp=True, fronts=1, own_process=True) as target:
        answer = target.stub.Generate(asked)
    assert answer.token_ids == expected.token_ids
    (stats,) = answer.finished.speculation.by_source
    assert stats.accepted < stats.predicted > 30


def test_a_shortlist_changes_no_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(loaded_drafter, "_SHORTLIST_SIZE", 80)
    model = write_one_step_model(Further.QWEN3_5, tmp_path)
    asked = [request(temperature=0.7), request(temperature=0.7), request(temperature=0.9), request(temperature=0.0)]
    asked[1].cache.salt = "a scope of its own"
    asked[2].grammar.regex = "[a-z]{30}"
    asked[3].prompt.token_ids.ids.extend([510, 511])  # which are on no list at first
    with target_server(model) as plain:
        expected = [plain.stub.Generate(each) for each in asked]
    with target_server(model, uses_mtp=True) as target:
        answers = [target.stub.Generate(each) for each in asked]
    assert [each.token_ids for each in answers] == [each.token_ids for each in expected]
    figures = [stats for each in answers for stats in each.finished.speculation.by_source]
    assert all(stats.predicted > 0 for stats in figures)
    assert figures[1].accepted < figures[1].predicted, "the layer is right wherever the list has the token"


def test_a_predictor_that_was_asked_for_goes_before_the_layer(tmp_path):
    model, asked = write_one_step_model(Further.QWEN3_5, tmp_path), request(temperature=0.7)
    with target_server(model) as plain:
        expected = plain.stub.Generate(asked).token_ids
    with target_server(model, predictor=SlippingPredictor(expected), uses_mtp=True) as target:
        answer = target.stub.Generate(asked)
    assert answer.token_ids == expected
    (stats,) = answer.finished.speculation.by_source
    assert stats.source == common_pb2.PREDICTION_SOURCE_DRAFT
