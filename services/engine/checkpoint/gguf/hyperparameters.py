"""Hyperparameters: translates the keys of a GGUF file back to the fields of the config.json that they were made from.

So the checks of a folder's configuration apply to GGUF files too. llama.cpp's conversion script is the reference for
the meaning of each key, and its models for the defaults of absent keys.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from services.engine.checkpoint.architectures.layer_kinds import FULL, SLIDING
from services.engine.checkpoint.gguf.names import EMBEDDING, HEAD, LONG_FACTORS, SHORT_FACTORS
from services.engine.checkpoint.gguf.tensors import GgufTensors
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import JsonFields, shown
from services.engine.gguf.metadata import Metadata

logger = logging.getLogger(__name__)
Fields = dict[str, Any]
"""Fields of config.json by their names."""

MOST_LISTED = 1 << 12  # elements of a list with a value for each layer
# The key, without the architecture's name before it, by the field of config.json.
_KEYS = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
    "sliding_window": "attention.sliding_window",
    "original_max_position_embeddings": "rope.scaling.original_context_length",
}
# Keys that are read by other code, by the field for whose errors they are named.
_NAMED = {
    "rope_scaling": "rope.scaling.type",
    "rope_scaling.rope_type": "rope.scaling.type",
    "rope_scaling.factor": "rope.scaling.factor",
    "rope_scaling.beta_fast": "rope.scaling.yarn_beta_fast",
    "rope_scaling.beta_slow": "rope.scaling.yarn_beta_slow",
    "partial_rotary_factor": "rope.dimension_count",
    "rope_local_base_freq": "rope.freq_base_swa",
    "sliding_window_pattern": "attention.sliding_window_pattern",
    "layer_types": "attention.sliding_window_pattern",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "layer_norm_eps": "attention.layer_norm_epsilon",
    "norm_epsilon": "attention.layer_norm_epsilon",
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "top_k_experts": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "n_routed_experts": "expert_count",
    "n_shared_experts": "expert_shared_count",
    "num_dense_layers": "leading_dense_block_count",
    "first_k_dense_replace": "leading_dense_block_count",
    "routed_scaling_factor": "expert_weights_scale",
    "norm_topk_prob": "expert_weights_norm",
    "n_group": "expert_group_count",
    "topk_group": "expert_group_used_count",
    "embedding_multiplier": "embedding_scale",
    "attention_multiplier": "attention.scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
    "logit_scale": "logit_scale",
    "global_head_dim": "attention.key_length",
    "num_global_key_value_heads": "attention.head_count_kv",
    "num_kv_shared_layers": "attention.shared_kv_layers",
    "hidden_size_per_layer_input": "embedding_length_per_layer_input",
    "norm_eps": "attention.layer_norm_rms_epsilon",
    "q_lora_rank": "attention.q_lora_rank",
    "kv_lora_rank": "attention.kv_lora_rank",
    "qk_rope_head_dim": "rope.dimension_count",
    "qk_nope_head_dim": "attention.key_length_mla",
    "v_head_dim": "attention.value_length_mla",
    "rope_scaling.mscale": "rope.scaling.yarn_log_multiplier",
    "rope_scaling.mscale_all_dim": "rope.scaling.yarn_log_multiplier",
    "conv_L_cache": "shortconv.l_cache",
    "full_attention_interval": "full_attention_interval",
    "linear_conv_kernel_dim": "ssm.conv_kernel",
    "linear_key_head_dim": "ssm.state_size",
    "linear_num_key_heads": "ssm.group_count",
    "linear_num_value_heads": "ssm.time_step_rank",
    "linear_value_head_dim": "ssm.inner_size",
}
_HARMLESS = {
    *("vocab_size", "attention.value_length", "attention.layer_norm_epsilon", "rope.scaling.finetuned"),
    *("tensor_data_layout", "attention.causal", "expert_gating_func"),
}
# The keys of the scale of cosine and sine, by the type of rope scaling.
_ATTENTION_FACTORS = {"longrope": "rope.scaling.attn_factor", "yarn": "rope.scaling.yarn_attn_factor"}
_MUST_BE_1 = {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_ext_factor"}
_MUST_BE_OFF = {  # for architectures that do not implement it
    *("expert_count", "expert_used_count", "expert_feed_forward_length", "expert_shared_feed_forward_length"),
    *("expert_group_count", "expert_group_used_count", "expert_shared_count"),
    *("expert_weights_scale", "leading_dense_block_count", "moe_every_n_layers"),
    *("attention.clamp_kqv", "attention.max_alibi_bias", "attention.scale", "attention.temperature_scale"),
    *("embedding_scale", "logit_scale", "residual_scale", "rope.scale_linear", "shortconv.l_cache"),
    *("ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank", "ssm.inner_size"),
    *(
        "full_attention_interval",
        "nextn_predict_layers",
        "pooling_type",
        "rope.scaling.yarn_log_multiplier",
        "use_parallel_residual",
    ),
}
_SOFTMAX, SIGMOID = 1, 2  # the values of `expert_gating_func`


class Hyperparameters:
    """The keys of one file that begin with its architecture's name; they are given without it."""

    def __init__(self, metadata: Metadata, architecture: str, tensors: GgufTensors) -> None:
        self.metadata = metadata
        self.tensors = tensors
        self._prefix = f"{architecture}."

    def __getitem__(self, key: str) -> object:
        """Return a value, None if it is absent; a list of equal numbers is returned as that number.

        Raises CheckpointError for a list that is too long.
        """
        value = self.metadata.raw(self._prefix + key)
        if isinstance(value, list) and len(value) > MOST_LISTED:
            raise self.error(key, f"has {len(value)} elements; it may have at most {MOST_LISTED}")
        if isinstance(value, list) and len({*value}) == 1 and not isinstance(value[0], bool):
            return value[0]
        return value

    def index(self, key: str, size: int) -> int | None:
        """Return a whole number from 0 to `size` - 1, None if it is absent; raises CheckpointError for others."""
        return self.metadata.index(self._prefix + key, size)

    def error(self, key: str, problem: str) -> CheckpointError:
        """Make the error that names this file and key."""
        return self.metadata.error(self._prefix + key, problem)

    def layer_types(self) -> Fields:
        """Return the kinds of the layers, if a list says which have windows."""
        pattern = self["attention.sliding_window_pattern"]
        return {"layer_types": [SLIDING if slides else FULL for slides in pattern]} if isinstance(pattern, list) else {}

    def refuse_windows(self) -> None:
        """Raise CheckpointError if there is a window, for architectures that have none."""
        if window := self["attention.sliding_window"]:
            raise self.error("attention.sliding_window", f"only 0 is supported here, is {shown(window)}")

    def check_all_carried_out(self, own: Collection[str]) -> None:
        """Raise CheckpointError for an unsupported key that would change the computation; log unknown keys.

        `own` are the keys that this architecture implements beside those that all do.
        """
        known = {*_KEYS.values(), *_NAMED.values(), *_HARMLESS, *_MUST_BE_OFF, *_MUST_BE_1, *own}
        for key in sorted(_MUST_BE_OFF.difference(own)):
            if value := self[key]:
                raise self.error(key, f"only 0 or false is supported, is {shown(value)}")
        for key in sorted(_MUST_BE_1 - {_ATTENTION_FACTORS.get(str(self._scaling_type()))}):
            if (value := self[key]) not in (None, 1):
                raise self.error(key, f"only 1 is supported here, is {shown(value)}")
        if self["attention.causal"] is False:
            raise self.error("attention.causal", "only true is supported")
        only, name = (SIGMOID, "sigmoid") if "expert_gating_func" in own else (_SOFTMAX, "softmax")
        if (gates := self["expert_gating_func"]) not in (None, only):
            raise self.error("expert_gating_func", f"only {only}, {name}, is supported, is {shown(gates)}")
        keys, values = self["attention.key_length"], self["attention.value_length"]
        if "attention.value_length_mla" not in own and None not in (keys, values) and keys != values:
            raise self.error("attention.value_length", f"must be that of keys, {shown(keys)}, is {shown(values)}")
        mine = (key.removeprefix(self._prefix) for key in self.metadata if key.startswith(self._prefix))
        if unknown := sorted(key for key in mine if key not in known):
            logger.warning("%s: unknown keys, which are ignored: %s", self.metadata.path, shown(unknown))

    def as_config(self, own: Mapping[str, Any]) -> JsonFields:
        """Return the fields of config.json, with the architecture's `own` ones; their errors name the keys."""
        fields = {field: self[key] for field, key in _KEYS.items()} | {
            "partial_rotary_factor": _rotary_part(self),
            "rope_scaling": self.rope_scaling(),
            "vocab_size": self.tensors.shape(EMBEDDING)[0] if EMBEDDING in self.tensors else None,
            "tie_word_embeddings": HEAD not in self.tensors,
        }
        of_scaling = {"rope_scaling.attention_factor": _ATTENTION_FACTORS.get(str(self._scaling_type()), "")}
        named = _NAMED | of_scaling
        named |= {field.replace("rope_scaling", "rope_parameters"): key for field, key in named.items()}
        keys = {field: self._prefix + key for field, key in (_KEYS | named).items()}
        return JsonFields({**fields, **own}, str(self.metadata.path), keys)

    def rope_scaling(self) -> dict[str, Any] | None:
        """Return the field `rope_scaling`, None if frequencies are not scaled; raises CheckpointError."""
        kind, factor = self._scaling_type(), self["rope.scaling.factor"]
        scaling = {"rope_type": kind, "factor": factor}
        match kind:
            case "longrope":
                factors = {"long_factor": LONG_FACTORS, "short_factor": SHORT_FACTORS}
                of_all = {field: self.tensors.factors(name) for field, name in factors.items()}
                return {"rope_type": kind, **of_all, "attention_factor": self[_ATTENTION_FACTORS[kind]]}
            case "yarn":
                betas = {f"beta_{name}": self[f"rope.scaling.yarn_beta_{name}"] for name in ("fast", "slow")}
                return scaling | betas | {"attention_factor": self[_ATTENTION_FACTORS[kind]]}
            case "linear":
                return scaling if factor not in (None, 0, 0.0) else None
            case "none":
                return None
        allowed = "none, linear, yarn and longrope"
        raise self.error("rope.scaling.type", f"{shown(kind)} is not supported; allowed are {allowed}")

    def _scaling_type(self) -> object:
        """Return the type of rope scaling; no key names LongRoPE, so its factors are the sign of it."""
        if LONG_FACTORS in self.tensors or SHORT_FACTORS in self.tensors:
            return "longrope"
        kind = self["rope.scaling.type"]
        return "linear" if kind is None else kind


def _rotary_part(found: Hyperparameters) -> object:
    """Return the part of each head that rotates; None if no key says so, which means the whole head."""
    turned, head_dim = found["rope.dimension_count"], found["attention.key_length"]
    if head_dim is None:
        heads, hidden = found["attention.head_count"], found["embedding_length"]
        head_dim = hidden // heads if isinstance(heads, int) and isinstance(hidden, int) and heads > 0 else None
    if turned is None or not isinstance(turned, int) or not isinstance(head_dim, int) or head_dim < 1:
        return turned
    return turned / head_dim
