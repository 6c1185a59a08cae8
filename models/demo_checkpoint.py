"""Hugging Face folders of the demo models: written, read back, and checked against transformers."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from demo_corpus import END_OF_TEXT
from demo_head import BOUNDARIES, Head
from demo_model import MAX_POSITIONS, NORM_EPS, ROPE_THETA, Llama, Shape
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"


def save_checkpoint(model: Llama, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the five files of a checkpoint, the weights in bfloat16; each replaces its predecessor at once."""
    end = tokenizer.token_to_id(END_OF_TEXT)
    _write_weights(folder, dict(model.named_parameters()))
    _write(folder / TOKENIZER, tokenizer.to_str(pretty=False))
    _write(folder / CONFIG, _as_json(_config(model.shape, end)))
    _write(folder / "tokenizer_config.json", _as_json(_tokenizer_config()))
    _write(folder / "generation_config.json", _as_json({"bos_token_id": end, "eos_token_id": end}))


def save_head(head: Head, shape: Shape, folder: Path, longest: int) -> None:
    """Write a head as the speculators library does, the weights in bfloat16, for a target of this shape; `longest` is
    the length of the texts that it was trained on, beyond which it looks back no further.
    """
    offsets = head.token_ids - torch.arange(len(head.token_ids))
    weights = {name.removeprefix("model."): weight for name, weight in head.named_parameters()}
    _write_weights(folder, weights, {"d2t": offsets})
    _write(folder / CONFIG, _as_json(_head_config(shape, len(head.token_ids), longest)))


def load_head(target: Llama, folder: Path) -> Head:
    """The head of a folder that save_head wrote, in float32."""
    weights = load_file(folder / WEIGHTS)
    offsets = weights.pop("d2t")
    head = Head(target, offsets + torch.arange(len(offsets)))
    for name, weight in head.named_parameters():
        weight.data.copy_(weights.pop(name.removeprefix("model.")))
    if weights:
        raise ValueError(f"{folder}: unknown tensors {[*weights]}")
    return head


def _write_weights(
    folder: Path, weights: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor] | None = None
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / (WEIGHTS + ".partial")
    narrow = {name: weight.detach().bfloat16().contiguous() for name, weight in weights.items()}
    save_file(narrow | dict(others or {}), partial, metadata={"format": "pt"})
    partial.chmod(0o644)  # the library makes its files private
    os.replace(partial, folder / WEIGHTS)


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def _as_json(value: dict[str, object]) -> str:
    return json.dumps(value, indent=2) + "\n"


def _config(shape: Shape, end: int) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate,
        "vocab_size": shape.vocab,
        "hidden_act": "silu",
        "rms_norm_eps": NORM_EPS,
        "rope_theta": ROPE_THETA,
        "rope_scaling": None,
        "max_position_embeddings": MAX_POSITIONS,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": end,
        "eos_token_id": end,
        "torch_dtype": "bfloat16",
    }


def _head_config(shape: Shape, num_tokens: int, longest: int) -> dict[str, object]:
    layers = _config(shape, 0) | {"num_hidden_layers": 1, "tie_word_embeddings": False}
    layers |= {"max_position_embeddings": longest}
    return {
        "speculators_model_type": "eagle3",
        "architectures": ["Eagle3DraftModel"],
        "speculators_config": {
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
            "verifier": {"name_or_path": "models/demo/target", "architectures": ["LlamaForCausalLM"]},
        },
        "transformer_layer_config": layers,
        "draft_vocab_size": num_tokens,
        "eagle_aux_hidden_state_layer_ids": [*BOUNDARIES],
        "norm_before_residual": True,
        "norm_before_fc": False,
        "fc_norm": True,
        "norm_output": True,
        "torch_dtype": "bfloat16",
    }


def _tokenizer_config() -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "model_max_length": MAX_POSITIONS,
        "clean_up_tokenization_spaces": False,
    }


def load_checkpoint(folder: Path) -> Llama:
    """The model of a folder that save_checkpoint wrote, in float32."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    model = Llama(
        Shape(
            hidden=config["hidden_size"],
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            intermediate=config["intermediate_size"],
            vocab=config["vocab_size"],
        )
    )
    model.load_state_dict({name: weight.float() for name, weight in load_file(folder / WEIGHTS).items()})
    return model


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a checkpoint."""
    return Tokenizer.from_file(str(folder / TOKENIZER))


@torch.no_grad()
def difference_from_transformers(folder: Path, ids: torch.Tensor) -> float:
    """The largest difference between our float32 logits and those of the transformers package."""
    from transformers import AutoModelForCausalLM  # only this check needs the package

    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return (theirs(ids).logits - load_checkpoint(folder).logits(ids)).abs().max().item()
