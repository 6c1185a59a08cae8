"""The text parts of folders that hold more: their fields and the names of their tensors, as folders of their own have
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from services.engine.checkpoint.stored_tensors import StoredTensors
from services.engine.files.json_fields import JsonFields, shown

_HEAD = "lm_head.weight"
_PREFIXES = ("language_model.model.", "model.language_model.")
_HEADS = ("language_model.lm_head.weight", _HEAD)


@dataclass(frozen=True, slots=True)
class TextPart:
    """A class whose text part is served: what it is called, and which classes that part may have, by their types."""

    model_type: str
    models: str
    classes: Mapping[str, str]

    def fields(self, config: JsonFields) -> JsonFields:
        """Return the fields of the text part; raises CheckpointError where it is of another type."""
        if (found := config.raw("model_type")) != self.model_type:
            raise config.error("model_type", f"must be {self.model_type!r}, by architectures, is {shown(found)}")
        text = config.required("text_config")
        kind = text.choice("model_type", self.classes, next(iter(self.classes)))
        outer = {name: config.raw(name) for name in ("tie_word_embeddings", "quantization_config") if name in config}
        return text.completed(outer).completed({"model_type": kind}).replaced({"architectures": [self.classes[kind]]})


TEXT_PARTS = {
    "Gemma3ForConditionalGeneration": TextPart(
        "gemma3", "Gemma 3 (4B, 12B, 27B), MedGemma, without pictures", {"gemma3_text": "Gemma3ForCausalLM"}
    ),
    "Mistral3ForConditionalGeneration": TextPart(
        "mistral3",
        "Mistral Small 3.1 and 3.2, Ministral 3, Magistral, without pictures",
        {"mistral": "MistralForCausalLM", "ministral3": "Ministral3ForCausalLM"},
    ),
}


def find_prefix(tensors: StoredTensors) -> str | None:
    """Return what the names of the text part's tensors begin with in a folder that holds more."""
    return next((prefix for prefix in _PREFIXES if f"{prefix}embed_tokens.weight" in tensors), None)


def renamed(name: str, prefix: str, tensors: StoredTensors) -> str:
    """Return what a tensor of a text model is called in such a folder."""
    if name == _HEAD:
        return next((head for head in _HEADS if head in tensors), name)
    return prefix + name.removeprefix("model.")
