"""What LFM2 has in a GGUF file beside what all architectures have, as fields of config.json."""

from services.engine.checkpoint.architectures.layer_kinds import FULL
from services.engine.checkpoint.architectures.lfm2 import CONV
from services.engine.checkpoint.gguf.hyperparameters import Fields, Hyperparameters
from services.engine.files.json_fields import shown


def translate_lfm2(found: Hyperparameters) -> Fields:
    """A layer without keys and values convolves; the rule of the MLP's size has been followed."""
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
