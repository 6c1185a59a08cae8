"""Small random checkpoints of every architecture, in which each of its features changes the output.

Windows are 16 positions, soft caps lie below what they cap, rotary scaling starts from a context of 32, norm weights
are far from 1, biases far from 0, and the logits are spread, so that greedy decoding has no near-ties.
"""

import atexit
import copy
import functools
import json
import shutil
import tempfile
import textwrap
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.files.checkpoint_error import CheckpointError

VOCAB_SIZE = 512  # of the models: the tokenizer has fewer entries, so that the last ids are padding
CONTEXT_LENGTH = 1024
LONGROPE_ORIGINAL = 32  # up to this context the short factors apply
SPECIAL_TOKENS = ("<|begin|>", "<|end|>", "<|user|>", "<|assistant|>")
_TOKENIZER_SIZE = 500

CHAT_TEMPLATE = """{%- if messages[0].role == "assistant" -%}
    {{ raise_exception("the first message cannot be the assistant's") }}
{%- endif -%}
{{ bos_token }}
{%- if tools %}<tools>{% for tool in tools %}{{ tool.function | tojson }}{% endfor %}</tools>{{ eos_token }}{% endif -%}
{%- for message in messages -%}
    <|{{ message.role }}|>
    {%- if enable_thinking and message.reasoning_content %}({{ message.reasoning_content }}){% endif -%}
    {{ message.name }}{{ message.tool_call_id }}{{ message.content | default("", true) | trim }}
    {%- for call in message.tool_calls or () -%}
        {%- set one = call.function -%}
        {{ call.id }}<tool_call>{"name": {{ one.name | tojson }}, "arguments": {{ one.arguments | tojson }}}</tool_call>
    {%- endfor -%}
    {{ eos_token }}
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}
"""


class Kind(StrEnum):
    """What a random checkpoint exercises."""

    LLAMA = "llama"  # Llama-3 rotary scaling, grouped heads, an output matrix of its own
    LLAMA_LINEAR = "llama_linear"  # linear rotary scaling, biases on query, key and value
    MISTRAL = "mistral"  # all layers windowed, heads wider than hidden / heads
    QWEN2 = "qwen2"  # biases on query, key and value, the last layers windowed, tied embeddings
    QWEN3 = "qwen3"  # query and key norms, heads wider than hidden / heads, tied embeddings
    PHI3 = "phi3"  # fused tensors, all layers windowed
    PHI3_LONGROPE = "phi3_longrope"  # fused tensors, longrope on three quarters of each head
    OLMO2 = "olmo2"  # norms after only, query and key norms over all heads together
    GEMMA2 = "gemma2"  # soft caps, every other layer windowed, norms on both sides, scaled tied embeddings
    GEMMA3 = "gemma3"  # five local layers to a global one, a rotary table for each kind, query and key norms


_PLAIN_SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT_LENGTH,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": None,
}
_SHAPE: dict[str, Any] = {**_PLAIN_SHAPE, "head_dim": 32}
_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
_LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
_LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.75,
    "factor": 4.0,
    "short_factor": [1.0 + 0.05 * i for i in range(12)],
    "long_factor": [1.0 + 0.5 * i for i in range(12)],
}
_GEMMA3_ROPES = {
    "full_attention": {"rope_type": "linear", "rope_theta": 1_000_000.0, "factor": 8.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}


_GEMMAS = {Kind.GEMMA2, Kind.GEMMA3}


def random_config(kind: Kind) -> transformers.PreTrainedConfig:
    """Return the configuration of one kind."""
    match kind:
        case Kind.LLAMA:
            return transformers.LlamaConfig(**_SHAPE, rope_parameters=dict(_LLAMA3_ROPE))
        case Kind.LLAMA_LINEAR:
            return transformers.LlamaConfig(**_SHAPE, rope_parameters=dict(_LINEAR_ROPE), attention_bias=True)
        case Kind.MISTRAL:
            return transformers.MistralConfig(**_PLAIN_SHAPE, head_dim=48, sliding_window=16)
        case Kind.QWEN2:
            return transformers.Qwen2Config(
                **_PLAIN_SHAPE,
                tie_word_embeddings=True,
                use_sliding_window=True,
                sliding_window=16,
                max_window_layers=2,
            )
        case Kind.QWEN3:
            return transformers.Qwen3Config(**_PLAIN_SHAPE, head_dim=64, tie_word_embeddings=True)
        case Kind.PHI3:
            return transformers.Phi3Config(**_PLAIN_SHAPE, sliding_window=16)
        case Kind.PHI3_LONGROPE:
            return transformers.Phi3Config(
                **_PLAIN_SHAPE, rope_parameters=dict(_LONGROPE), original_max_position_embeddings=LONGROPE_ORIGINAL
            )
        case Kind.OLMO2:
            return transformers.Olmo2Config(**_PLAIN_SHAPE)
        case Kind.GEMMA2:
            return transformers.Gemma2Config(
                **_SHAPE,
                sliding_window=16,
                query_pre_attn_scalar=24,
                attn_logit_softcapping=4.0,
                final_logit_softcapping=12.0,
            )
        case Kind.GEMMA3:
            return transformers.Gemma3TextConfig(
                **{**_SHAPE, "num_hidden_layers": 6},
                rope_parameters=copy.deepcopy(_GEMMA3_ROPES),
                sliding_window=16,
                query_pre_attn_scalar=16,
            )


def random_checkpoint(kind: Kind, dtype: torch.dtype = torch.float32, *, sharded: bool = False) -> Path:
    """Return the folder of a random checkpoint, made once per process; it goes when the process ends."""
    folder = scratch() / f"{kind}-{dtype}{'-sharded' * sharded}"
    if not folder.exists():
        write_random_checkpoint(folder, kind, dtype, sharded=sharded)
    return folder


def write_random_checkpoint(
    folder: Path, kind: Kind, dtype: torch.dtype = torch.float32, *, sharded: bool = False, **sizes: int
) -> None:
    """Write a whole checkpoint folder: the same bytes on every call; `sizes` are fields other than the kind's."""
    config = random_config(kind)
    config.update(sizes)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    write_model(folder, model, dtype, norm_offset=float(kind in _GEMMAS), sharded=sharded)


def write_model(
    folder: Path,
    model: transformers.PreTrainedModel,
    dtype: torch.dtype = torch.float32,
    *,
    norm_offset: float,
    output_biases: bool = False,
    sharded: bool = False,
) -> None:
    """Give a model random weights and write it with a tokenizer; biases on what attention gives may be left out."""
    folder.mkdir(parents=True)
    generator = torch.Generator().manual_seed(20_240_817)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_zero = name.endswith("o_proj.bias") and not output_biases
            parameter.copy_(0 * noise if is_zero else _random_weight(name, noise, norm_offset=norm_offset))
        for name, buffer in model.named_buffers():
            if name.endswith(("expert_bias", "score_correction_bias")):
                buffer.copy_(0.5 * torch.randn(buffer.shape, generator=generator))
            if name.endswith("layer_scalar"):
                buffer.copy_(0.7 + 0.1 * torch.randn(buffer.shape, generator=generator))
    state = model.to(dtype).state_dict()
    if model.config.tie_word_embeddings:
        state = {name: value for name, value in state.items() if name != "lm_head.weight"}
    if not output_biases:
        state = {name: value for name, value in state.items() if not name.endswith("o_proj.bias")}
    model.save_pretrained(folder, state_dict=state, max_shard_size="200KB" if sharded else "1GB")
    _write_tokenizer(folder)


def _random_weight(name: str, noise: torch.Tensor, *, norm_offset: float) -> torch.Tensor:
    """Keep the scale of activations, but sharpen the attention and spread the logits."""
    if name.endswith(
        ("model.norm.weight", "language_model.norm.weight", "embedding_norm.weight")
    ):  # of both signs: else a tied model repeats its input
        return 4.0 * (1.0 + 0.4 * noise) * noise.sign() - norm_offset
    if name.endswith(("bias", "sinks")):
        return noise * (2.0 if name.endswith("sinks") else 0.5)
    if name.endswith("experts.gate_up_proj"):  # beyond where its values are clamped; the inputs come before the outputs
        return noise * 4.0 * noise.shape[-2] ** -0.5
    if "norm" in name or name.endswith(("router.scale", "per_expert_scale")):
        return 1.0 + 0.4 * noise - norm_offset
    sharpness = 2.0 if any(part in name for part in ("q_proj", "k_proj", "qkv_proj")) else 1.0
    return noise * sharpness * noise.shape[-1] ** -0.5


def _write_tokenizer(folder: Path) -> None:
    byte_level_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    settings = {"bos_token": SPECIAL_TOKENS[0], "eos_token": SPECIAL_TOKENS[1]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@functools.cache
def byte_level_tokenizer() -> Tokenizer:
    """Return a byte-level BPE tokenizer, trained on a module of the standard library."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_TOKENIZER_SIZE,
        special_tokens=[*SPECIAL_TOKENS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([Path(textwrap.__file__).read_text()], trainer)
    begin = SPECIAL_TOKENS[0]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{begin} $A", special_tokens=[(begin, 0)])
    return tokenizer


@functools.cache
def scratch() -> Path:
    """Return a folder that goes when the process ends."""
    folder = tempfile.mkdtemp(prefix="outrider-checkpoints-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def copy_of(source: Path, folder: Path, name: str = "model", *, chat_template: str | None = None) -> Path:
    """Copy a checkpoint into a folder of the test's own, where it may be changed, and give it a chat template."""
    copy = Path(shutil.copytree(source, folder / name))
    if chat_template is not None:
        (copy / "chat_template.jinja").write_text(chat_template)
    return copy


def edit_json(path: Path, **changes: object) -> None:
    """Set fields; None removes one, while those that are null stay so."""
    fields = {name: value for name, value in json.loads(path.read_text()).items() if name not in changes}
    path.write_text(json.dumps(fields | {name: value for name, value in changes.items() if value is not None}))


def add_token(folder: Path, content: str) -> None:
    """Add a token to a folder's tokenizer, with the first id that the model does not have."""
    path = folder / "tokenizer.json"
    description = json.loads(path.read_text())
    vocabulary, added = description["model"]["vocab"], description["added_tokens"]
    ids = {*vocabulary.values(), *(token["id"] for token in added)}
    vocabulary |= {f"padding {token_id}": token_id for token_id in range(VOCAB_SIZE) if token_id not in ids}
    added.append({**added[0], "id": VOCAB_SIZE, "content": content})
    path.write_text(json.dumps(description))


def edit_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change the tensors of a checkpoint in one file."""
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def refusal(path: Path, context_length: int | None = None) -> str:
    """Return the one line that says why a checkpoint is refused."""
    with pytest.raises(CheckpointError) as refused:
        load_checkpoint(path, context_length=context_length)
    assert "\n" not in str(refused.value)
    return str(refused.value)
