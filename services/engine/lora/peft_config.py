"""peft_config: reads the adapter_config.json of a LoRA adapter, and refuses unsupported settings."""

import math
from dataclasses import dataclass
from pathlib import Path

from services.engine.files.json_fields import JsonFields, shown

CONFIG = "adapter_config.json"
_MOST_RANK = 1024  # the decoder's limit


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CARRIED_OUT = _names("peft_type r lora_alpha use_rslora bias init_lora_weights")
_HARMLESS = _names("""
    auto_mapping base_model_name_or_path corda_config eva_config exclude_modules inference_mode layers_pattern
    layers_to_transform loftq_config lora_dropout lora_ga_config megatron_config megatron_core peft_version
    qalora_group_size revision runtime_config target_modules task_type
""")
"""The tensors show which weights an adapter changes; the other fields are about its training or other programs."""
_KEEPS_WEIGHTS = (True, False, "gaussian", "orthogonal", "eva", "lora_ga")
"""The initialisations of a training that do not change the model's own weights."""


@dataclass(frozen=True, slots=True)
class PeftConfig:
    """An adapter's rank, and the scale of the product of its matrices."""

    rank: int
    scale: float


def read_peft_config(folder: Path) -> PeftConfig:
    """Read a folder's configuration; raises CheckpointError, naming the field, for an unsupported setting.

    The scale is alpha / r (arXiv 2106.09685, section 4.1) or, with rsLoRA, alpha / sqrt(r) (arXiv 2312.03732,
    section 3).
    """
    fields = JsonFields.from_file(folder / CONFIG)
    fields.choice("peft_type", ["LORA"])
    fields.choice("bias", ["none"], "none")
    if (way := fields.raw("init_lora_weights")) is not None and way not in _KEEPS_WEIGHTS:
        allowed = ", ".join(map(str, _KEEPS_WEIGHTS))
        raise fields.error("init_lora_weights", f"{shown(way)} changes the model's own weights; allowed are {allowed}")
    for name in fields:
        if name not in _CARRIED_OUT | _HARMLESS and fields.raw(name):
            problem = f"only null, false, 0 or empty is supported, is {shown(fields.raw(name))}"
            raise fields.error(name, problem)
    rank, alpha = fields.integer("r", maximum=_MOST_RANK), fields.number("lora_alpha")
    return PeftConfig(rank, alpha / (math.sqrt(rank) if fields.flag("use_rslora", False) else rank))
