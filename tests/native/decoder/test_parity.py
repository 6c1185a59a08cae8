"""The native decoder and the reference compute what transformers computes, on checkpoints that use every feature."""

from dataclasses import dataclass, replace

import pytest
import torch

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import Attention, ModelConfig
from tests.harness.models.checkpoints import LONGROPE_ORIGINAL, Kind, random_checkpoint
from tests.native.harness.devices import DEVICES
from tests.native.harness.parity import (
    NUM_PROMPT,
    NUM_STEPS,
    PROMPT,
    Model,
    Run,
    assert_same_run,
    error_of_switched,
    native_model,
    plain_rope,
    reference_model,
    relative_error,
    run_greedily,
    transformers_model,
    true_run,
)
from tests.native.harness.switched_features import (
    with_layers,
    with_one_rope,
    without_attention_bias,
    without_norms_after,
    without_qk_norm,
    without_rope_scale,
    without_stretched_ropes,
    without_windows,
)

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module", params=list(Kind))
def kind(request) -> Kind:
    return request.param


@pytest.fixture(scope="module")
def truth(kind) -> Run:
    return true_run(random_checkpoint(kind))


def test_reference_is_transformers_in_float32(kind, truth):
    checkpoint = load_checkpoint(random_checkpoint(kind))
    assert_same_run(run_greedily(reference_model(checkpoint, torch.float32)), truth)


@pytest.mark.parametrize("device_name", DEVICES)
def test_native_is_transformers_in_float32(kind, device_name, truth):
    checkpoint = load_checkpoint(random_checkpoint(kind))
    assert_same_run(run_greedily(native_model(checkpoint, device_name, "f32")), truth)


@dataclass(frozen=True)
class Bfloat16Truth:
    """Float32 logits of a bfloat16 checkpoint over a fixed text, and how far transformers' bfloat16 is from them."""

    token_ids: list[int]
    logits: torch.Tensor  # [tokens, vocab]
    error: float


@pytest.fixture(scope="module")
def bfloat16_truth(kind, truth) -> Bfloat16Truth:
    folder, token_ids = random_checkpoint(kind, torch.bfloat16), PROMPT + truth.token_ids[:NUM_STEPS]
    logits = transformers_model(folder, torch.float32)(token_ids)
    error = relative_error(transformers_model(folder, torch.bfloat16)(token_ids), logits)
    return Bfloat16Truth(token_ids, logits, error)


def forced_logits(model: Model, token_ids: list[int]) -> torch.Tensor:
    """Prefill the prompt, then decode the given tokens one by one.  # [tokens, vocab]"""
    prefill = model(token_ids[:NUM_PROMPT])
    return torch.cat([prefill, *(model([token_id]) for token_id in token_ids[NUM_PROMPT:])])


def test_reference_in_bfloat16_is_as_exact_as_transformers(kind, bfloat16_truth):
    checkpoint = load_checkpoint(random_checkpoint(kind, torch.bfloat16))
    logits = forced_logits(reference_model(checkpoint, torch.bfloat16), bfloat16_truth.token_ids)
    assert relative_error(logits, bfloat16_truth.logits) <= 1.5 * bfloat16_truth.error


@pytest.mark.parametrize("device_name", DEVICES)
def test_native_in_bfloat16_is_as_exact_as_transformers(kind, device_name, bfloat16_truth):
    checkpoint = load_checkpoint(random_checkpoint(kind, torch.bfloat16))
    logits = forced_logits(native_model(checkpoint, device_name, "bf16"), bfloat16_truth.token_ids)
    assert relative_error(logits, bfloat16_truth.logits) <= 1.5 * bfloat16_truth.error


@pytest.mark.parametrize("device_name", DEVICES)
def test_native_prefill_in_pieces_gives_the_same_bits(kind, device_name):
    checkpoint = load_checkpoint(random_checkpoint(kind, torch.bfloat16))
    whole, in_pieces = (native_model(checkpoint, device_name, "bf16") for _ in range(2))
    pieces = torch.cat([in_pieces(PROMPT[start : start + 13]) for start in range(0, NUM_PROMPT, 13)])
    assert torch.equal(pieces.view(torch.int32), whole(PROMPT).view(torch.int32))


def test_a_context_within_the_original_takes_short_factors():
    """transformers takes them too, as long as the text is that short."""
    folder, token_ids = random_checkpoint(Kind.PHI3_LONGROPE), PROMPT[:LONGROPE_ORIGINAL]
    truth = transformers_model(folder, torch.float32)(token_ids)
    short, long = (
        reference_model(load_checkpoint(folder, context_length=context_length), torch.float32)(token_ids)
        for context_length in (LONGROPE_ORIGINAL, LONGROPE_ORIGINAL + 1)
    )
    assert relative_error(short, truth) < 1e-4
    assert relative_error(long, truth) > 1e-2


def without_rope_scaling(config: ModelConfig) -> ModelConfig:
    return replace(config, ropes=(plain_rope(config),))


def without_global_rope_scaling(config: ModelConfig) -> ModelConfig:
    return replace(config, ropes=(plain_rope(config, theta=1_000_000.0), config.ropes[1]))


def with_whole_heads_turning(config: ModelConfig) -> ModelConfig:
    (rope,) = config.ropes
    num_missing = config.head_dim // 2 - len(rope.frequencies)
    return replace(config, ropes=(replace(rope, frequencies=(*rope.frequencies, *rope.frequencies[-num_missing:])),))


def with_plain_query_scale(config: ModelConfig) -> ModelConfig:
    return replace(config, query_scale=config.head_dim**-0.5)


def with_all_windows(config: ModelConfig) -> ModelConfig:
    widest = max(layer.window for layer in config.layers if isinstance(layer, Attention))
    return with_layers(config, window=widest)


def without_embedding_scale(config: ModelConfig) -> ModelConfig:
    return replace(config, embedding_scale=1.0)


FEATURES = {
    (Kind.LLAMA, "rotary scaling"): without_rope_scaling,
    (Kind.LLAMA_LINEAR, "rotary scaling"): without_rope_scaling,
    (Kind.LLAMA_LINEAR, "attention bias"): without_attention_bias,
    (Kind.MISTRAL, "sliding window"): without_windows,
    (Kind.QWEN2, "attention bias"): without_attention_bias,
    (Kind.QWEN2, "sliding window"): without_windows,
    (Kind.QWEN2, "layers without a window"): with_all_windows,
    (Kind.QWEN3, "query and key norm"): without_qk_norm,
    (Kind.PHI3, "sliding window"): without_windows,
    (Kind.PHI3_LONGROPE, "long factors"): without_stretched_ropes,
    (Kind.PHI3_LONGROPE, "scale of cosine and sine"): without_rope_scale,
    (Kind.PHI3_LONGROPE, "partial rotation"): with_whole_heads_turning,
    (Kind.OLMO2, "query and key norm"): without_qk_norm,
    (Kind.OLMO2, "no norms before"): lambda config: replace(config, pre_norm=True),
    (Kind.OLMO2, "norms after"): without_norms_after,
    (Kind.GEMMA2, "sliding window"): without_windows,
    (Kind.GEMMA2, "layers without a window"): with_all_windows,
    (Kind.GEMMA2, "query scale"): with_plain_query_scale,
    (Kind.GEMMA2, "attention soft cap"): lambda config: replace(config, attention_softcap=0.0),
    (Kind.GEMMA2, "logit soft cap"): lambda config: replace(config, logit_softcap=0.0),
    (Kind.GEMMA2, "embedding scale"): without_embedding_scale,
    (Kind.GEMMA2, "norms after"): without_norms_after,
    (Kind.GEMMA3, "sliding window"): without_windows,
    (Kind.GEMMA3, "layers without a window"): with_all_windows,
    (Kind.GEMMA3, "local rotary table"): with_one_rope,
    (Kind.GEMMA3, "global rotary scaling"): without_global_rope_scaling,
    (Kind.GEMMA3, "query and key norm"): without_qk_norm,
    (Kind.GEMMA3, "query scale"): with_plain_query_scale,
    (Kind.GEMMA3, "embedding scale"): without_embedding_scale,
    (Kind.GEMMA3, "norms after"): without_norms_after,
}


@pytest.mark.parametrize(("feature_kind", "feature"), FEATURES)
def test_every_feature_matters(feature_kind, feature):
    """Else a decoder that ignores it would pass the tests above."""
    checkpoint = load_checkpoint(random_checkpoint(feature_kind))
    assert error_of_switched(checkpoint, FEATURES[feature_kind, feature](checkpoint.config)) > 1e-2
