"""LFM2: translates its own keys of a GGUF file, beside those that all architectures have, to fields of config.json."""

from services.engine.checkpoint.architectures.layer_kinds import FULL
from services.engine.checkpoint.architectures.lfm2 import CONV
from services.engine.checkpoint.gguf.hyperparameters import Fields, Hyperparameters
from services.engine.files.json_fields import shown


def translate_lfm2(found: Hyperparameters) -> Fields:
    """Return the fields; layers with 0 KV heads are convolutions, and the size of the MLP is final.

    Raises CheckpointError for a bad key.
    """
    found.refuse_windows()
    heads, layers = found["attention.head_count_kv"], found["block_count"]
    fields: Fields = {
        "hidden_act": "silu",
        "norm_eps": found["attention.layer_norm_rms_epsilon"],
        "conv_L_cache": found["shortconv.l_cache"],
        "block_auto_adjust_ff_dim": False,
    }
    if not isinstance(heads, list):
        return fields | {"layer_types": None}
    if len(heads) != layers:
        raise found.error("attention.head_count_kv", f"has {len(heads)} elements; there are {shown(layers)} layers")
    attending = {count for count in heads if count != 0}
    return fields | {
        "layer_types": [CONV if count == 0 else FULL for count in heads],
        "num_key_value_heads": attending.pop() if len(attending) == 1 else heads,
    }
