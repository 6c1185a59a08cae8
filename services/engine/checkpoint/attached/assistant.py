"""assistant: the drafters of Gemma 4, whose layers read keys and values of their target.

Each of its layers reads those of the target's last layer of the same kind that has any, of all positions before the
token that it goes on from. Every further prediction is made at the same position, from the drafter's own output (the
program that defines it is transformers' Gemma4AssistantForCausalLM).
"""

from dataclasses import replace
from pathlib import Path

from services.engine.checkpoint.architectures.table import fitting_names, read_architecture
from services.engine.checkpoint.attached.attached_drafter import AttachedDrafter, drafter_source
from services.engine.checkpoint.attached.drafter_fields import DEFAULT_PREDICTIONS, MOST_PREDICTIONS
from services.engine.checkpoint.attached.drafter_kind import DrafterKind
from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.checkpoint.folder_source import require_values
from services.engine.checkpoint.model_config import Attention, FeatureNorm, Features, Layer, ModelConfig
from services.engine.checkpoint.tensor_files import TensorFiles
from services.engine.checkpoint.tensor_names import ASSISTANT_NAMES, TIED_ASSISTANT_NAMES
from services.engine.files.json_fields import JsonFields

_TEXT_CLASSES = {"gemma4_text": "Gemma4ForCausalLM", "gemma4_unified_text": "Gemma4UnifiedForCausalLM"}
_CLUSTERS = "masked_embedding."  # tensors by which fewer tokens are looked at: here it is a shortlist that does so
_DOUBTS = "it may belong to another model, or the model may have been trained further without it"


def load_assistant(folder: Path, target: ModelConfig) -> AttachedDrafter:
    """Read and check the configuration of a drafter for a target, and the names and shapes of its weights.

    Raises CheckpointError naming the file, field or tensor at fault.
    """
    config = JsonFields.from_file(folder / "config.json")
    text = config.required("text_config")
    model_type = text.choice("model_type", _TEXT_CLASSES, "gemma4_text")
    own = text.completed({"model_type": model_type, "tie_word_embeddings": True})
    own = own.replaced({"architectures": [_TEXT_CLASSES[model_type]], "num_kv_shared_layers": 0})
    _, layers = read_architecture(own, target.max_position)
    _check_sizes(config, text, layers, target)
    described = replace(
        layers,
        architecture=DrafterKind.ASSISTANT,
        layers=_attached(text, layers, target),
        max_position=target.max_position,
        embedding_scale=target.embedding_scale,  # the tokens' vectors are the target's
        tied_embeddings=False,
        features=Features(
            count=1,
            width=target.hidden_size,
            norm=FeatureNorm.ALL,  # with the weights of the target's final norm
            fc_reads_both=True,
            norm_carried=True,
            head_size=layers.vocab_size,
        ),
    )
    tensors = TensorFiles(folder)
    names = fitting_names((ASSISTANT_NAMES, TIED_ASSISTANT_NAMES), described, {*tensors})
    require_values(tensors, names)
    unused = {name for name in tensors if name.startswith(_CLUSTERS) or name in {*TIED_ASSISTANT_NAMES} - {*names}}
    return AttachedDrafter(
        name=folder.resolve().name,
        checkpoint=Checkpoint(drafter_source(folder, described, tensors, names, unused)),
        boundaries=(target.num_layers,),
        head_tokens=(),
        num_predictions=_num_predictions(folder),
        doubts=_DOUBTS,
    )


def _check_sizes(config: JsonFields, text: JsonFields, layers: ModelConfig, target: ModelConfig) -> None:
    """Raise CheckpointError, with both numbers, for a drafter of another target, and for layers it cannot have."""
    if (width := config.integer("backbone_hidden_size")) != target.hidden_size:
        problem = f"must be the target's hidden size, {target.hidden_size}, is {width}"
        raise config.error("backbone_hidden_size", problem)
    if layers.vocab_size != target.vocab_size:
        problem = f"must be the target's vocabulary, {target.vocab_size}, is {layers.vocab_size}"
        raise text.error("vocab_size", problem)
    if layers.layer_input_size:
        raise text.error("hidden_size_per_layer_input", f"must be 0 in a drafter, is {layers.layer_input_size}")
    if layers.experts is not None:
        raise text.error("enable_moe_block", "must be false in a drafter")


def _attached(text: JsonFields, config: ModelConfig, target: ModelConfig) -> tuple[Layer, ...]:
    """Return the layers, each with the target's layer that it reads; raises CheckpointError."""
    last = {
        layer.window > 0: index
        for index, layer in enumerate(target.layers)
        if isinstance(layer, Attention) and layer.kv_layer is None
    }
    return tuple(_attached_layer(text, config, index, target, last) for index in range(config.num_layers))


def _attached_layer(
    text: JsonFields, config: ModelConfig, index: int, target: ModelConfig, last: dict[bool, int]
) -> Attention:
    layer = config.layers[index]
    assert isinstance(layer, Attention)
    kind = "with a window" if layer.window else "without a window"
    if (number := last.get(layer.window > 0)) is None:
        raise text.error("layer_types", f"has a layer {kind}, and the target has none with keys and values")
    read = target.layers[number]
    assert isinstance(read, Attention)
    shapes = [
        (model.num_kv_heads_of(each), model.head_dim_of(each)) for model, each in ((config, layer), (target, read))
    ]
    if shapes[0] != shapes[1]:
        own, others = (f"{count} heads of {size}" for count, size in shapes)
        field = "num_key_value_heads" if layer.window else "num_global_key_value_heads"
        raise text.error(field, f"keys and values of layers {kind} must be as the target's, {others}, are {own}")
    if config.ropes[layer.rope] != target.ropes[read.rope]:
        raise text.error("rope_parameters", f"must be the target's for layers {kind}, whose keys they turn")
    # The window is counted in both directions there, which is one position more.
    return replace(layer, target_layer=number, values_are_keys=False, window=layer.window and layer.window + 1)


def _num_predictions(folder: Path) -> int:
    generation = JsonFields.from_file_if_any(folder / "generation_config.json")
    return min(generation.integer("num_assistant_tokens", DEFAULT_PREDICTIONS), MOST_PREDICTIONS)
