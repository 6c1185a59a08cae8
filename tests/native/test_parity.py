"""The native decoder and the reference compute what transformers computes, on checkpoints that use every feature."""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.checkpoint.model_config import ModelConfig, QkNorm, Rope
from services.engine.checkpoint.weight_shapes import weight_shapes
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import BLOCK_SIZE, Batch
from services.engine.decoder.reference import KvCache, ReferenceDecoder
from tests.checkpoints import LONGROPE_ORIGINAL, Kind, random_checkpoint
from tests.native.devices import DEVICES, make_device

NUM_PROMPT, NUM_STEPS = 96, 32
PROMPT = np.random.default_rng(7).integers(4, 500, NUM_PROMPT).tolist()

Model = Callable[[Seq[int]], torch.Tensor]
"""Takes the tokens that follow those taken before, and returns their logits.  # [tokens, vocab]"""


@dataclass(frozen=True)
class Run:
    """Prefill of the prompt and greedy decoding from it."""

    prefill: torch.Tensor  # [prompt, vocab]
    steps: torch.Tensor  # [steps, vocab]
    token_ids: list[int]  # [steps + 1]


def run_greedily(model: Model) -> Run:
    prefill = model(PROMPT)
    token_ids = [int(prefill[-1].argmax())]
    steps = []
    for _ in range(NUM_STEPS):
        steps.append(model(token_ids[-1:])[0])
        token_ids.append(int(steps[-1].argmax()))
    return Run(prefill, torch.stack(steps), token_ids)


def transformers_model(folder: Path, dtype: torch.dtype) -> Model:
    decoder = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    cache = transformers.DynamicCache(config=decoder.config)

    @torch.inference_mode()
    def model(token_ids):
        return decoder(torch.tensor([token_ids]), past_key_values=cache).logits[0].float()

    return model


def reference_model(checkpoint: Checkpoint, dtype: torch.dtype) -> Model:
    decoder, cache = ReferenceDecoder(checkpoint.config, checkpoint.weights(), dtype), KvCache()
    return lambda token_ids: decoder.logits(token_ids, cache)


def native_model(checkpoint: Checkpoint, device_name: str, dtype: str) -> Model:
    num_blocks = -(-(NUM_PROMPT + NUM_STEPS) // BLOCK_SIZE)
    decoder = load_decoder(
        checkpoint, make_device(device_name, threads=1), weights=dtype, kv=dtype, num_blocks=num_blocks
    )
    batch = Batch(max_rows=NUM_PROMPT, max_sequences=1, max_blocks=num_blocks)
    position = 0

    def model(token_ids):
        nonlocal position
        batch.clear()
        batch.append(token_ids, position=position, blocks=range(num_blocks)[::-1], num_logits=len(token_ids))
        position += len(token_ids)
        return torch.from_numpy(decoder.forward(batch).numpy())

    return model


def relative_error(values: torch.Tensor, truth: torch.Tensor) -> float:
    return float((values - truth).norm() / truth.norm())


@pytest.fixture(scope="module", autouse=True)
def one_torch_thread():
    """On matrices this small, torch's threads spend their time waiting for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=list(Kind))
def kind(request) -> Kind:
    return request.param


@pytest.fixture(scope="module")
def truth(kind) -> Run:
    run = run_greedily(transformers_model(random_checkpoint(kind), torch.float32))
    best = torch.cat([run.prefill[-1:], run.steps]).topk(2).values
    assert (best[:, 0] - best[:, 1]).min() > 1e-4 * best.abs().max(), "greedy has a near-tie: choose another seed"
    return run


def assert_same_run(run: Run, truth: Run) -> None:
    assert relative_error(run.prefill, truth.prefill) < 1e-4
    errors = [relative_error(step, expected) for step, expected in zip(run.steps, truth.steps, strict=True)]
    assert max(errors) < 1e-4
    assert run.token_ids == truth.token_ids


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


def test_a_context_within_the_original_one_takes_the_short_factors():
    """transformers takes them too, as long as the text is that short."""
    folder, token_ids = random_checkpoint(Kind.PHI3_LONGROPE), PROMPT[:LONGROPE_ORIGINAL]
    truth = transformers_model(folder, torch.float32)(token_ids)
    short, long = (
        reference_model(load_checkpoint(folder, context_length=context_length), torch.float32)(token_ids)
        for context_length in (LONGROPE_ORIGINAL, LONGROPE_ORIGINAL + 1)
    )
    assert relative_error(short, truth) < 1e-4
    assert relative_error(long, truth) > 1e-2


def plain_rope(config: ModelConfig, theta: float = 10_000.0, rotary_dim: int | None = None) -> Rope:
    rotary_dim = rotary_dim or config.head_dim
    return Rope(frequencies=tuple(theta ** (-i / rotary_dim) for i in range(0, rotary_dim, 2)))


def without_rope_scaling(config: ModelConfig) -> ModelConfig:
    return replace(config, ropes=(plain_rope(config),))


def without_global_rope_scaling(config: ModelConfig) -> ModelConfig:
    return replace(config, ropes=(plain_rope(config, theta=1_000_000.0), config.ropes[1]))


def without_long_factors(config: ModelConfig) -> ModelConfig:
    (rope,) = config.ropes
    plain = plain_rope(config, rotary_dim=2 * len(rope.frequencies))
    return replace(config, ropes=(replace(plain, scale=rope.scale),))


def without_rope_scale(config: ModelConfig) -> ModelConfig:
    return replace(config, ropes=(replace(config.ropes[0], scale=1.0),))


def with_whole_heads_turning(config: ModelConfig) -> ModelConfig:
    (rope,) = config.ropes
    num_missing = config.head_dim // 2 - len(rope.frequencies)
    return replace(config, ropes=(replace(rope, frequencies=(*rope.frequencies, *rope.frequencies[-num_missing:])),))


def with_one_rope(config: ModelConfig) -> ModelConfig:
    return replace(config, rope_of_layer=(0,) * config.num_layers)


def with_plain_query_scale(config: ModelConfig) -> ModelConfig:
    return replace(config, query_scale=config.head_dim**-0.5)


def with_all_windows(config: ModelConfig) -> ModelConfig:
    return replace(config, windows=(max(config.windows),) * config.num_layers)


def without_windows(config: ModelConfig) -> ModelConfig:
    return replace(config, windows=(0,) * config.num_layers)


def without_attention_bias(config: ModelConfig) -> ModelConfig:
    return replace(config, attention_bias=False)


def without_qk_norm(config: ModelConfig) -> ModelConfig:
    return replace(config, qk_norm=QkNorm.NONE)


def without_embedding_scale(config: ModelConfig) -> ModelConfig:
    return replace(config, embedding_scale=1.0)


def without_norms_after(config: ModelConfig) -> ModelConfig:
    return replace(config, post_norm=False)


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
    (Kind.PHI3_LONGROPE, "long factors"): without_long_factors,
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
    weights = dict(checkpoint.weights())
    switched = FEATURES[feature_kind, feature](checkpoint.config)
    of_ones = {name: np.ones(shape, np.float32) for name, shape in weight_shapes(switched).items()}
    truth = ReferenceDecoder(checkpoint.config, weights.items()).logits(PROMPT)
    logits = ReferenceDecoder(switched, (of_ones | weights).items()).logits(PROMPT)
    assert relative_error(logits, truth) > 1e-2
