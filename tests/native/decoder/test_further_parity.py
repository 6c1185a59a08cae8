"""Further architectures and rotary scalings compute what transformers computes, and each of their features matters."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.checkpoint.model_config import Activation, ExpertScores, ModelConfig, Norm, QkNorm
from tests.harness.models.checkpoints import copy_of, edit_json, edit_weights
from tests.harness.models.further_checkpoints import Further, further_checkpoint, stack_experts
from tests.native.harness import reference_decoder
from tests.native.harness.devices import DEVICES
from tests.native.harness.parity import (
    PROMPT,
    assert_same_run,
    error_of_switched,
    native_model,
    plain_rope,
    reference_logits,
    reference_model,
    relative_error,
    run_greedily,
    transformers_model,
    true_run,
)
from tests.native.harness.reference_decoder import ReferenceDecoder
from tests.native.harness.switched_features import (
    with_experts,
    with_fewer_taps,
    with_latents,
    with_one_rope,
    without_attention_bias,
    without_norms_after,
    without_qk_norm,
    without_rope_scale,
    without_stretched_ropes,
    without_windows,
)

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.mark.parametrize("kind", Further)
def test_all_decoders_match_transformers_in_float32(kind):
    truth = true_run(further_checkpoint(kind))
    checkpoint = load_checkpoint(further_checkpoint(kind))
    assert_same_run(run_greedily(reference_model(checkpoint, torch.float32)), truth)
    assert_same_run(run_greedily(native_model(checkpoint, DEVICES[0], "f32")), truth)


@pytest.mark.parametrize("kind", [Further.QWEN3_5_MOE, Further.QWEN3_NEXT])
def test_experts_in_one_tensor_match_transformers_in_float32(kind, tmp_path):
    folder = copy_of(further_checkpoint(kind), tmp_path)
    edit_weights(folder, stack_experts)
    truth = transformers_model(folder, torch.float32)(PROMPT)
    assert relative_error(native_model(load_checkpoint(folder), DEVICES[0], "f32")(PROMPT), truth) < 1e-4


def _with_whole_heads_turning(config: ModelConfig) -> ModelConfig:
    return replace(config, ropes=(plain_rope(config),))


FEATURES = {
    (Further.LLAMA_BIASED, "output bias"): lambda config: replace(config, output_bias=False),
    (Further.LLAMA_BIASED, "bias of query, key and value"): without_attention_bias,
    (Further.LLAMA_BIASED, "biases of the MLP"): lambda config: replace(config, mlp_bias=False),
    (Further.LLAMA_BIASED, "long factors"): without_stretched_ropes,
    (Further.LLAMA_BIASED, "scale of cosine and sine"): without_rope_scale,
    (Further.MINISTRAL, "windows"): without_windows,
    (Further.MINISTRAL3, "YaRN"): without_stretched_ropes,
    (Further.MINISTRAL3, "scale of cosine and sine"): without_rope_scale,
    (Further.SMOLLM3, "layers without rope"): with_one_rope,
    (Further.SMOLLM3, "YaRN"): without_stretched_ropes,
    (Further.GRANITE, "embedding multiplier"): lambda config: replace(config, embedding_scale=1 / 0.4),
    (Further.GRANITE, "residual multiplier"): lambda config: replace(config, embedding_scale=3.0),
    (Further.GRANITE, "attention multiplier"): lambda config: replace(config, query_scale=16**-0.5),
    (Further.GRANITE, "logits scaling"): lambda config: replace(config, logit_scale=1.0),
    (Further.OLMO3, "windows"): without_windows,
    (Further.OLMO3, "a table for each kind of layer"): with_one_rope,
    (Further.OLMO3, "norms of query and key"): without_qk_norm,
    (Further.GLM, "partial rotation"): _with_whole_heads_turning,
    (Further.GLM, "bias of query, key and value"): without_attention_bias,
    (Further.GLM4, "norms after"): without_norms_after,
    (Further.STABLELM, "mean of the norms"): lambda config: replace(config, norm=Norm.RMS),
    (Further.STABLELM, "biases of the norms"): lambda config: replace(config, norm_bias=False),
    (Further.STABLELM, "partial rotation"): _with_whole_heads_turning,
    (Further.STABLELM, "bias of query, key and value"): without_attention_bias,
    (Further.STABLELM_PARALLEL, "norms of query and key"): without_qk_norm,
    (Further.STABLELM_PARALLEL, "weights of each head"): lambda config: replace(config, qk_norm=QkNorm.HEAD),
    (Further.STABLELM_PARALLEL, "MLP beside attention"): lambda config: replace(config, parallel_mlp=False),
    (Further.STARCODER2, "MLP without a gate"): lambda config: replace(config, gated_mlp=True),
    (Further.STARCODER2, "biases of the MLP"): lambda config: replace(config, mlp_bias=False),
    (Further.STARCODER2, "output bias"): lambda config: replace(config, output_bias=False),
    (Further.STARCODER2, "windows"): without_windows,
    (Further.COHERE, "mean of the norms"): lambda config: replace(config, norm=Norm.RMS),
    (Further.COHERE, "MLP beside attention"): lambda config: replace(config, parallel_mlp=False),
    (Further.COHERE, "logit scale"): lambda config: replace(config, logit_scale=1.0),
    (Further.COHERE, "biases of attention"): without_attention_bias,
    (Further.COHERE_PLUS, "norms of query and key"): without_qk_norm,
    (Further.COHERE_PLUS, "weights of each head"): lambda config: replace(config, qk_norm=QkNorm.HEAD),
    (Further.COHERE2, "mean of the norms"): lambda config: replace(config, norm=Norm.RMS),
    (Further.COHERE2, "MLP beside attention"): lambda config: replace(config, parallel_mlp=False),
    (Further.COHERE2, "layers without rope"): with_one_rope,
    (Further.COHERE2, "logit scale"): lambda config: replace(config, logit_scale=1.0),
    (Further.COHERE2, "windows"): without_windows,
    (Further.PHI4_MINI, "partial rotation"): _with_whole_heads_turning,
    (Further.LFM2, "taps of earlier positions"): with_fewer_taps,
    (Further.LFM2, "biases of convolutions"): lambda config: replace(config, conv_bias=False),
    (Further.LFM2, "norms of query and key"): without_qk_norm,
    **{
        (kind, feature): switched
        for kind in (Further.LFM2_MOE, Further.GLM4_MOE)
        for feature, switched in {
            "scores by sigmoids": lambda config: with_experts(config, scores=ExpertScores.SOFTMAX),
            "bias of choices": lambda config: with_experts(config, has_choice_bias=False),
            "scale of weights": lambda config: with_experts(config, weight_scale=1.0),
            "weights that sum up to 1": lambda config: with_experts(config, are_normalised=False),
        }.items()
    },
    (Further.LFM2_MOE_PLAIN, "weights of all experts"): lambda config: with_experts(config, are_normalised=True),
    (Further.GLM4_MOE, "groups of experts"): lambda config: with_experts(config, groups=1, groups_per_token=1),
    (Further.GLM4_MOE, "how many groups"): lambda config: with_experts(config, groups_per_token=1),
    (Further.GLM4_MOE, "expert for all tokens"): lambda config: replace(config, intermediate_size=0),
    (Further.GLM4_MOE, "norms of query and key"): without_qk_norm,
    (Further.GLM4_MOE, "bias of query, key and value"): without_attention_bias,
    (Further.GLM4_MOE_AIR, "partial rotation"): _with_whole_heads_turning,
    (Further.GLM4_MOE_LITE, "compressed vectors' own epsilon"): lambda config: with_latents(config, norm_eps=0.01),
    (Further.DEEPSEEK_V2, "scores that grow"): lambda config: replace(config, query_scale=96**-0.5),
    (Further.DEEPSEEK_V2, "groups of experts"): lambda config: with_experts(config, groups=1, groups_per_token=1),
    (Further.DEEPSEEK_V2, "weights of all experts"): lambda config: with_experts(config, are_normalised=True),
    (Further.DEEPSEEK_V2, "scale of cosine and sine"): without_rope_scale,
    (Further.DEEPSEEK_V3, "YaRN"): without_stretched_ropes,
    (Further.OLMOE, "norms of query and key"): without_qk_norm,
    (Further.OLMOE, "weights of all experts"): lambda config: with_experts(config, are_normalised=True),
    (Further.OLMOE, "how many experts"): lambda config: with_experts(config, per_token=2),
    (Further.QWEN3_MOE, "norms of query and key"): without_qk_norm,
    (Further.QWEN3_MOE, "weights that sum up to 1"): lambda config: with_experts(config, are_normalised=False),
    (Further.MIXTRAL, "weights that sum up to 1"): lambda config: with_experts(config, are_normalised=False),
    (Further.MIXTRAL, "windows"): without_windows,
    (Further.QWEN2_MOE, "bias of query, key and value"): without_attention_bias,
    (Further.QWEN2_MOE, "expert for all tokens"): lambda config: replace(config, intermediate_size=0),
    (Further.GPT_OSS, "sinks"): lambda config: replace(config, attention_sinks=False),
    (Further.GPT_OSS, "clamped gates"): lambda config: replace(config, activation=Activation.SILU),
    (Further.GPT_OSS, "biases of experts"): lambda config: with_experts(config, have_biases=False),
    (Further.GPT_OSS, "biases of attention"): without_attention_bias,
    (Further.GPT_OSS, "bias of what attention gives"): lambda config: replace(config, output_bias=False),
    (Further.GPT_OSS, "weights that sum up to 1"): lambda config: with_experts(config, are_normalised=False),
    (Further.GPT_OSS, "windows"): without_windows,
    (Further.GPT_OSS, "YaRN"): without_stretched_ropes,
    (Further.GEMMA3_PICTURES, "windows"): without_windows,
    (Further.QWEN3_5, "partial rotation"): _with_whole_heads_turning,
    (Further.QWEN3_5, "gates of attention"): lambda config: replace(config, attention_gate=False),
    (Further.QWEN3_5, "norms of query and key"): without_qk_norm,
    (Further.QWEN3_5, "taps of earlier positions"): with_fewer_taps,
    (Further.QWEN3_5_MOE, "weights that sum up to 1"): lambda config: with_experts(config, are_normalised=False),
    (Further.QWEN3_5_MOE, "expert for all tokens"): lambda config: replace(config, intermediate_size=0),
    (Further.QWEN3_NEXT, "weights that sum up to 1"): lambda config: with_experts(config, are_normalised=False),
    (Further.QWEN3_NEXT_ALIKE, "weights of all experts"): lambda config: with_experts(config, are_normalised=True),
}


@pytest.mark.parametrize(("kind", "feature"), FEATURES)
def test_every_feature_matters(kind, feature):
    """Else a decoder that ignores it would pass the test above."""
    checkpoint = load_checkpoint(further_checkpoint(kind))
    assert error_of_switched(checkpoint, FEATURES[kind, feature](checkpoint.config)) > 1e-2


def test_the_gate_of_the_expert_for_all_tokens_matters():
    checkpoint = load_checkpoint(further_checkpoint(Further.QWEN2_MOE))
    truth = reference_logits(checkpoint.path)
    half_open = {name: 0 * values if name.endswith("shared_gate") else values for name, values in checkpoint.weights()}
    assert relative_error(ReferenceDecoder(checkpoint.config, half_open.items()).logits(PROMPT), truth) > 1e-2


def test_where_gates_and_ups_are_clamped_matters(monkeypatch):
    checkpoint = load_checkpoint(further_checkpoint(Further.GPT_OSS))
    truth = reference_logits(checkpoint.path)
    monkeypatch.setattr(reference_decoder, "_SWIGLU_LIMIT", np.inf)
    assert relative_error(ReferenceDecoder(checkpoint.config, checkpoint.weights()).logits(PROMPT), truth) > 1e-2


def test_neighbours_turn_together():
    """A folder of the same tensors under a name whose heads turn by halves gives other logits."""
    checkpoint = load_checkpoint(further_checkpoint(Further.GLM))
    truth = reference_logits(checkpoint.path)
    order = np.arange(32)
    order[:16] = order[:16].reshape(2, 8).T.reshape(-1)  # back to the file's
    weights = {
        name: values.reshape(-1, 32, *values.shape[1:])[:, np.argsort(order)].reshape(values.shape)
        if name.endswith((".q", ".k", ".q_bias", ".k_bias"))
        else values
        for name, values in checkpoint.weights()
    }
    assert relative_error(ReferenceDecoder(checkpoint.config, weights.items()).logits(PROMPT), truth) > 1e-2


def _served(tmp_path, context_length: int, **changes: object) -> tuple[Checkpoint, torch.Tensor]:
    """A Llama with other fields, and transformers' logits of a text that is as long as the context."""
    folder = copy_of(further_checkpoint(Further.LLAMA_BIASED), tmp_path)
    edit_json(folder / "config.json", **changes)
    truth = transformers_model(folder, torch.float32)(PROMPT[:context_length])
    return load_checkpoint(folder, context_length=context_length), truth


def test_dynamic_scaling_goes_by_the_context_that_is_served(tmp_path):
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    checkpoint, truth = _served(tmp_path, 96, rope_parameters=rope, max_position_embeddings=48)
    assert checkpoint.config.max_position == 96
    assert relative_error(reference_model(checkpoint, torch.float32)(PROMPT), truth) < 1e-4
    within = load_checkpoint(checkpoint.path)
    assert within.config.max_position == 48
    assert relative_error(reference_model(within, torch.float32)(PROMPT), truth) > 1e-2


def test_gelu_itself_is_not_gelu_by_its_tanh(tmp_path):
    folder = copy_of(further_checkpoint(Further.STARCODER2), tmp_path)
    edit_json(folder / "config.json", hidden_act="gelu")
    truth = transformers_model(folder, torch.float32)(PROMPT)
    checkpoint = load_checkpoint(folder)
    assert relative_error(native_model(checkpoint, DEVICES[0], "f32")(PROMPT), truth) < 1e-5
    assert relative_error(reference_model(checkpoint, torch.float32)(PROMPT), truth) < 1e-5
    assert error_of_switched(checkpoint, replace(checkpoint.config, activation=Activation.GELU_TANH)) > 1e-4


def test_yarn_serves_as_many_positions_as_it_was_stretched_to(tmp_path):
    rope = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 2.0, "original_max_position_embeddings": 48}
    checkpoint, truth = _served(tmp_path, 96, rope_parameters=rope, max_position_embeddings=48)
    assert checkpoint.config.max_position == 96
    assert relative_error(reference_model(checkpoint, torch.float32)(PROMPT), truth) < 1e-4
