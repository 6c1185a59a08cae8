"""A model's own layer for multi-token prediction predicts for it, in each format, and changes no byte."""

from collections.abc import Callable
from pathlib import Path

import gguf
import pytest
import torch

from outrider.v1 import common_pb2, generation_pb2
from tests.harness.models.checkpoints import edit_weights
from tests.harness.models.further_checkpoints import Further
from tests.harness.models.gguf_files import write_gguf
from tests.harness.models.mtp_folders import write_mtp_folder, write_one_step_model
from tests.harness.servers.server import target_server
from tests.rpc.harness.requests import as_unary, stream_request

Q8_0 = gguf.GGMLQuantizationType.Q8_0
ALWAYS = {"mode": common_pb2.SPECULATION_MODE_ALWAYS, "num_predictions": 3}
Source = Callable[[Path], Path]
MODELS: dict[str, tuple[Source, str]] = {
    "dense": (lambda path: write_one_step_model(Further.QWEN3_5, path), "bf16"),
    "dense, int8": (lambda path: write_one_step_model(Further.QWEN3_5, path), "int8"),
    "dense, int4": (lambda path: write_one_step_model(Further.QWEN3_5, path), "int4"),
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
def test_a_layer_that_is_always_right_is_accepted(tmp_path, source, weights):
    model = source(tmp_path)
    requests = [request(temperature=temperature) for temperature in (0.0, 1.0)]
    with target_server(model, weights=weights) as plain:
        expected = [plain.stub.Generate(each) for each in requests]
        assert not plain.stub.GetModelInfo(generation_pb2.GetModelInfoRequest()).head
    with target_server(model, weights=weights, own_head=True) as target:
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
    with target_server(model, own_head=True, fronts=1, own_process=True) as target:
        answer = target.stub.Generate(asked)
    assert answer.token_ids == expected.token_ids
    (stats,) = answer.finished.speculation.by_source
    assert stats.accepted < stats.predicted > 30


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [
        ("mtp.fc.weight", (64, 64), "tensor 'mtp.fc.weight' has shape [64, 64]; by config.json it must be [64, 128]"),
        ("mtp.layers.1.input_layernorm.weight", (64,), "tensor 'mtp.layers.1.input_layernorm.weight' has no place in"),
        ("mtp.embed_tokens.weight", (512, 64), "tensor 'mtp.embed_tokens.weight' has no place in the MTP layer of"),
    ],
)
def test_a_layer_that_cannot_be_used_is_left_out(tmp_path, caplog, name, shape, said):
    model = write_mtp_folder(Further.QWEN3_5, tmp_path)
    edit_weights(model, lambda tensors: tensors.update({name: torch.ones(shape)}))
    with target_server(model, own_head=True) as target:
        assert not target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest()).head
    (warning,) = [each.message for each in caplog.records if "multi-token prediction is not used" in each.message]
    assert said in warning
