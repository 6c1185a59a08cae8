"""The text parts of multimodal folders: their fields, and the names of their tensors."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.engine.checkpoint.stored_tensors import StoredTensors
from services.engine.files.json_fields import JsonFields, shown

_HEAD = "lm_head.weight"
_PREFIXES = ("language_model.model.", "model.language_model.")
_HEADS = ("language_model.lm_head.weight", _HEAD)


@dataclass(frozen=True, slots=True)
class TextPart:
    """A multimodal class whose text part is served; `classes` are the classes of the text part by their model types."""

    model_type: str
    models: str
    classes: Mapping[str, str]

    def fields(self, config: JsonFields) -> JsonFields:
        """Return the fields of the text part; raises CheckpointError if it has another model type."""
        if (found := config.raw("model_type")) != self.model_type:
            raise config.error("model_type", f"must be {self.model_type!r}, by architectures, is {shown(found)}")
        text = config.required("text_config")
        kind = text.choice("model_type", self.classes, next(iter(self.classes)))
        outer = {name: config.raw(name) for name in ("tie_word_embeddings", "quantization_config") if name in config}
        return text.completed(outer).completed({"model_type": kind}).replaced({"architectures": [self.classes[kind]]})


TEXT_PARTS = {
    "Gemma3ForConditionalGeneration": TextPart(
        "gemma3", "Gemma 3 (4B, 12B, 27B), MedGemma, without images", {"gemma3_text": "Gemma3ForCausalLM"}
    ),
    "Gemma4ForConditionalGeneration": TextPart(
        "gemma4",
        "Gemma 4 (E2B, E4B, 26B-A4B, 31B), without images and sound",
        {"gemma4_text": "Gemma4ForCausalLM"},
    ),
    "Gemma4UnifiedForConditionalGeneration": TextPart(
        "gemma4_unified",
        "Gemma 4 (12B), without images and sound",
        {"gemma4_unified_text": "Gemma4UnifiedForCausalLM"},
    ),
    "Qwen3_5ForConditionalGeneration": TextPart(
        "qwen3_5", "Qwen 3.5, 3.6 and 3.8 (dense), without images", {"qwen3_5_text": "Qwen3_5ForCausalLM"}
    ),
    "Qwen3_5MoeForConditionalGeneration": TextPart(
        "qwen3_5_moe",
        "Qwen 3.5 and 3.6 MoE (35B-A3B, 122B-A10B, 397B-A17B), without images",
        {"qwen3_5_moe_text": "Qwen3_5MoeForCausalLM"},
    ),
    "Mistral3ForConditionalGeneration": TextPart(
        "mistral3",
        "Mistral Small 3.1 and 3.2, Ministral 3, Magistral, without images",
        {"mistral": "MistralForCausalLM", "ministral3": "Ministral3ForCausalLM"},
    ),
}


def find_prefix(tensors: StoredTensors) -> str | None:
    """Return the prefix of the text part's tensors in a multimodal folder; None for a folder of text only."""
    return next((prefix for prefix in _PREFIXES if f"{prefix}embed_tokens.weight" in tensors), None)


def renamed(name: str, prefix: str, tensors: StoredTensors) -> str:
    """Return the name of a text model's tensor in a multimodal folder with this prefix."""
    if name == _HEAD:
        return next((head for head in _HEADS if head in tensors), name)
    return prefix + name.removeprefix("model.")


def text_name(name: str) -> str:
    """Return the name of a multimodal folder's tensor in a folder of its text part; other names are returned as is."""
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
    return name if prefix is None else f"model.{name.removeprefix(prefix)}"
