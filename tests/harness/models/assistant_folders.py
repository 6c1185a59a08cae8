"""Folders with a drafter of Gemma 4 that reads its target's keys and values: a random one, or one that is right."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers

from tests.harness.models.checkpoints import copy_of, edit_weights, write_model
from tests.harness.models.further_checkpoints import Further, further_checkpoint, further_config
from tests.harness.models.one_step_models import make_one_step

Tensors = dict[str, torch.Tensor]
_TEXTS = (transformers.Gemma4TextConfig, transformers.Gemma4UnifiedTextConfig)


@contextmanager
def all_layers_shared() -> Iterator[None]:
    """Let transformers make drafters: version 5.23 wants layers with keys and values of their own in any model."""
    with ExitStack() as patches:
        for text in _TEXTS:
            patches.enter_context(
                patch.object(text, "kv_sharing_modes", property(partial(_modes, text.kv_sharing_modes)))
            )
        yield


def _modes(plain: property, config: transformers.PreTrainedConfig) -> list[str | None]:
    count = config.num_hidden_layers
    return ["reuse"] * count if config.num_kv_shared_layers == count else plain.__get__(config)


def write_assistant(folder: Path, kind: Further, *, hidden_size: int = 48, **fields: Any) -> Path:
    """Write a random drafter for a model of one kind, and return its folder."""
    config = further_config(kind).get_text_config()
    target = config.to_dict()
    shared = ("vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window")
    like = {name: target[name] for name in (*shared, "final_logit_softcapping", "attention_k_eq_v")}
    whole = target["per_layer_config"]["3"]
    text = type(config)(
        **{**like, "hidden_size": hidden_size, "intermediate_size": 80, "num_hidden_layers": 3},
        **{"layer_types": ["sliding_attention"] * 2 + ["full_attention"], "max_position_embeddings": 256},
        **{"global_head_dim": whole["head_dim"], "num_global_key_value_heads": whole.get("num_key_value_heads")},
        **dict.fromkeys(("hidden_size_per_layer_input", "vocab_size_per_layer_input"), 0),
    )
    name = "Gemma4UnifiedAssistant" if kind is Further.GEMMA4_UNIFIED else "Gemma4Assistant"
    with all_layers_shared():
        whole_config = getattr(transformers, f"{name}Config")(
            text_config=text, backbone_hidden_size=target["hidden_size"], **{"num_centroids": 16, **fields}
        )
        model = getattr(transformers, f"{name}ForCausalLM")(whole_config)
        write_model(folder, model, norm_offset=0.0)
    return folder


def write_one_step_assistant(folder: Path) -> tuple[Path, Path]:
    """Write a target whose next token depends on the last one only, and a drafter that predicts it every time: it hands
    the token's own vector to the output matrix. Returns where they are.
    """
    target = copy_of(further_checkpoint(Further.GEMMA4), folder / "target")
    edit_weights(target, make_one_step)
    found: Tensors = {}
    edit_weights(target, found.update)
    table, norm = found["model.embed_tokens.weight"], found["model.norm.weight"]
    drafter = write_assistant(folder / "drafter", Further.GEMMA4, hidden_size=table.shape[1])

    def edit(tensors: Tensors) -> None:
        make_one_step(tensors)
        tensors["model.embed_tokens.weight"] = table.clone()
        tensors["model.norm.weight"] = norm.clone()
        tensors["pre_projection.weight"] = torch.eye(table.shape[1], 2 * table.shape[1])

    edit_weights(drafter, edit)
    return target, drafter
