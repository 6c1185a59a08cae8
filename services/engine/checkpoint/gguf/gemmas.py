"""Translates the hyperparameters of Gemma 2 to 4 to the fields of a config.json."""

from services.engine.checkpoint.architectures.layer_kinds import FULL, SLIDING
from services.engine.checkpoint.gguf.hyperparameters import MOST_LISTED, Fields, Hyperparameters
from services.engine.checkpoint.gguf.names import FIRST_QUERY_BIAS, ROPE_FACTORS
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import shown

_STANDING = 1e20  # the least factor that stops a frequency from turning anything; the conversion writes 1e30


def translate_gemma2(found: Hyperparameters) -> Fields:
    """Return the fields of Gemma 2; llama.cpp has defaults for its window and its soft caps."""
    window, attention, final = (
        found[key] for key in ("attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping")
    )
    return _translate_gemma(found, largest=46) | {
        "sliding_window": 4096 if window is None else window,
        "attn_logit_softcapping": 50.0 if attention is None else attention,
        "final_logit_softcapping": 30.0 if final is None else final,
    }


def translate_gemma3(found: Hyperparameters) -> Fields:
    """Return the fields of Gemma 3."""
    fields = _translate_gemma(found, largest=62) | {
        "final_logit_softcapping": found["final_logit_softcapping"] or None,
        "rope_local_base_freq": found["rope.freq_base_swa"],
    }
    layers = found["block_count"]
    if not found["attention.sliding_window"] and isinstance(layers, int):
        return fields | {"layer_types": [FULL] * min(layers, MOST_LISTED)}
    pattern = found["attention.sliding_window_pattern"]
    return fields | ({} if isinstance(pattern, list) else {"sliding_window_pattern": pattern})


def _translate_gemma(found: Hyperparameters, *, largest: int) -> Fields:
    """Translate what both share; the largest model scales its queries by hidden size / heads, not head size."""
    hidden, heads, layers = (found[key] for key in ("embedding_length", "attention.head_count", "block_count"))
    fields: Fields = {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": found["attention.key_length"]}
    if layers == largest and isinstance(hidden, int) and isinstance(heads, int) and heads > 0:
        fields["query_pre_attn_scalar"] = hidden // heads
    return fields | found.layer_types()


def translate_gemma4(found: Hyperparameters) -> Fields:
    """Return the fields of Gemma 4; keys that end in `_swa` are those of the layers with a window.

    Raises CheckpointError for a bad key.
    """
    of_windows, of_whole = "attention.key_length_swa", "attention.key_length"
    for key, other in {
        **{"attention.value_length_swa": of_windows, "rope.dimension_count_swa": of_windows},
        "rope.dimension_count": of_whole,
    }.items():
        if found[key] not in (None, found[other]):
            raise found.error(key, f"must be that of {other}, {shown(found[other])}, is {shown(found[key])}")
    if found.rope_scaling() is not None:
        raise found.error("rope.scaling.type", "only none is supported for Gemma 4")
    turning = {"rope_type": "default", "rope_theta": found["rope.freq_base_swa"]}
    turning_in_part = {"rope_type": "proportional", "rope_theta": found["rope.freq_base"]}
    return {
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": FIRST_QUERY_BIAS in found.tensors,
        "head_dim": found[of_windows],
        "global_head_dim": found[of_whole],
        **_heads_of_kinds(found),
        **_shared_layers(found),
        "final_logit_softcapping": found["final_logit_softcapping"] or None,
        "hidden_size_per_layer_input": found["embedding_length_per_layer_input"],
        **dict.fromkeys(("rope_theta", "rope_scaling", "partial_rotary_factor")),
        "rope_parameters": {SLIDING: turning, FULL: turning_in_part | {"partial_rotary_factor": _turning_part(found)}},
        **(_experts(found) if found["expert_count"] else {}),
    }


def _heads_of_kinds(found: Hyperparameters) -> Fields:
    """Return the kinds of the layers, and their heads of keys and values; values without a matrix are keys."""
    pattern, heads = found["attention.sliding_window_pattern"], found["attention.head_count_kv"]
    if not isinstance(pattern, list):
        raise found.error("attention.sliding_window_pattern", "must say of each layer whether it has a window")
    listed = heads if isinstance(heads, list) else [heads] * len(pattern)
    if len(listed) != len(pattern):
        raise found.error("attention.head_count_kv", f"has {len(listed)} elements, for {len(pattern)} layers")
    of_windows, of_whole = (
        {count for count, slides in zip(listed, pattern, strict=True) if bool(slides) is kind} for kind in (True, False)
    )
    if max(len(of_windows), len(of_whole)) > 1:
        raise found.error("attention.head_count_kv", f"must be the same for layers of a kind, is {shown(heads)}")
    first = pattern.index(False) if False in pattern else 0
    are_keys = f"blk.{first}.attn_v.weight" not in found.tensors
    if not are_keys and len(of_windows | of_whole) > 1:
        problem = f"must be the same for all layers where values have a matrix, is {shown(heads)}"
        raise found.error("attention.head_count_kv", problem)
    return found.layer_types() | {
        "num_key_value_heads": next(iter(of_windows or of_whole), None),
        "num_global_key_value_heads": next(iter(of_whole), None),
        "attention_k_eq_v": are_keys,
    }


def _shared_layers(found: Hyperparameters) -> Fields:
    """Return how many layers share keys and values, and whether their MLP is twice as wide."""
    shared, sizes = found["attention.shared_kv_layers"] or 0, found["feed_forward_length"]
    fields = {"num_kv_shared_layers": shared, "use_double_wide_mlp": False}
    if not isinstance(sizes, list):
        return fields
    if len(sizes) != found["block_count"]:
        problem = f"has {len(sizes)} elements, for {shown(found['block_count'])} layers"
        raise found.error("feed_forward_length", problem)
    own = len(sizes) - shared if isinstance(shared, int) else 0
    if not 0 < own < len(sizes) or {*sizes[:own]} != {sizes[0]} or {*sizes[own:]} != {2 * sizes[0]}:
        problem = f"must be twice that of the others in the layers that share keys and values, is {shown(sizes)}"
        raise found.error("feed_forward_length", problem)
    return fields | {"intermediate_size": sizes[0], "use_double_wide_mlp": True}


def _turning_part(found: Hyperparameters) -> float:
    """Return the part of a head that turns: its frequencies are divided by 1, and those of the rest by huge factors."""
    factors = found.tensors.factors(ROPE_FACTORS)
    if factors is None:
        raise found.error("rope.freq_base", f"needs tensor {ROPE_FACTORS!r}, which says how much of a head turns")
    turning, head_dim = factors.count(1.0), found["attention.key_length"]
    are_right = factors[:turning] == [1.0] * turning and all(one >= _STANDING for one in factors[turning:])
    if not turning or not are_right or 2 * len(factors) != head_dim:
        problem = f"must be ones, then numbers from {_STANDING:.0e}, one for every two of a head's {shown(head_dim)}"
        raise CheckpointError(f"{found.tensors.path(ROPE_FACTORS)}: tensor {ROPE_FACTORS!r}: {problem}")
    return turning / len(factors)


def _experts(found: Hyperparameters) -> Fields:
    return {
        "enable_moe_block": True,
        "num_experts": found["expert_count"],
        "top_k_experts": found["expert_used_count"],
        "moe_intermediate_size": found["expert_feed_forward_length"],
    }
