"""source: reads a GGUF file as a CheckpointSource."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from services.engine.checkpoint.absent_biases import without_absent_biases
from services.engine.checkpoint.architectures.architecture import Architecture
from services.engine.checkpoint.architectures.table import expand_names, fitting_names, read_architecture
from services.engine.checkpoint.attached.mtp import mtp_config, mtp_names, mtp_source
from services.engine.checkpoint.checkpoint_source import CheckpointSource, shared_keys
from services.engine.checkpoint.generation_defaults import read_eos_token_ids, read_generation_defaults
from services.engine.checkpoint.gguf.architectures import GgufArchitecture, read_gguf_config
from services.engine.checkpoint.gguf.delta_tensors import DeltaTensors
from services.engine.checkpoint.gguf.names import (
    FINAL_NORM,
    LONG_FACTORS,
    MTP_COPIES,
    MTP_NAMES,
    ROPE_FACTORS,
    SHORT_FACTORS,
)
from services.engine.checkpoint.gguf.tensors import GgufTensors
from services.engine.checkpoint.latent_tensors import whole_name
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.checkpoint.ordered_tensors import Order, halves_of_heads, orders_of_rows, taps_apart
from services.engine.checkpoint.weight_shapes import weight_shapes
from services.engine.files.json_fields import JsonFields
from services.engine.forced_tokens import ForcedIds
from services.engine.gguf.gguf_file import GgufFile
from services.engine.gguf.metadata import Metadata
from services.engine.gguf.vocabulary import Vocabulary
from services.engine.sampling_params import SAMPLING_NUMBERS

_OTHER_NAMES = {"temperature": "temp", "repetition_penalty": "penalty_repeat"}
_SAMPLING = {
    number.name: f"general.sampling.{_OTHER_NAMES.get(number.name, number.name)}"
    for number in SAMPLING_NUMBERS
    if number.is_recommended
}


def read_gguf(path: Path, context_length: int | None) -> CheckpointSource:
    """Read a file's metadata and open its tensors; raises CheckpointError naming the key or tensor at fault."""
    file = GgufFile(path)
    tensors = GgufTensors(file)
    found, fields = read_gguf_config(file.metadata, tensors)
    architecture, config = read_architecture(fields, context_length)
    if found.divides_frequencies:
        config = _divide_frequencies(config, tensors)
    generation = _read_generation(file.metadata)
    if found.permutes_heads:
        _restore_heads(tensors, config)
    names = fitting_names((found.names, found.packed_names), config, {*tensors})
    folder_names = {whole_name(name): ours for name, ours in expand_names(architecture.names, config).items()}
    _restore_rows(tensors, config, names)
    _restore_taps(tensors, config, names)
    groups = delta.key_heads if (delta := config.delta) and found.permutes_value_heads else 1
    ours = DeltaTensors(tensors, delta, names, groups=groups) if delta else tensors
    _restore_shapes(tensors, config, names)
    further = _further_layers(file.metadata, config, tensors)
    source = CheckpointSource(
        path=path,
        described_by="the file's metadata",
        config=without_absent_biases(config, names, tensors),
        generation=read_generation_defaults(generation),
        token_rules={},  # the format cannot hold them
        forced_ids=ForcedIds(),  # nor these
        eos_token_ids=read_eos_token_ids(generation, generation, config.vocab_size),
        tensors=ours,
        names=names,
        folder_names=folder_names,
        folder_orders=_folder_orders(architecture, config, folder_names),
        ignored=frozenset({ROPE_FACTORS, LONG_FACTORS, SHORT_FACTORS} | further | shared_keys(config, names)),
        norms_are_offsets=False,  # the converter has added the 1
    )
    copies = MTP_COPIES if architecture.mtp and architecture.mtp.copies else ()
    return replace(source, read_mtp=partial(_read_mtp, source, found, tensors, further, copies)) if further else source


def _read_mtp(
    model: CheckpointSource, found: GgufArchitecture, tensors: GgufTensors, further: set[str], copies: Iterable[str]
) -> CheckpointSource:
    """Read the layer for multi-token prediction as a drafter that takes the output of the model's final norm."""
    config, layer = mtp_config(model.config), f"blk.{model.config.num_layers}."
    others = {FINAL_NORM: "feature_norm", **{layer + name: ours for name, ours in MTP_NAMES.items()}}
    tables = (found.names, found.packed_names)
    names = mtp_names(tables, config, tensors, others, model_layer="blk.{i}.", mtp_layer=layer)
    _restore_rows(tensors, config, names)
    _restore_shapes(tensors, config, names)
    own = further.difference(layer + name for name in copies)
    return mtp_source(model, config, tensors, names, (name for name in tensors if name not in own))


def _further_layers(metadata: Metadata, config: ModelConfig, tensors: GgufTensors) -> set[str]:
    """Return the tensors of the layers after the model's last, which predict further tokens."""
    count = metadata.raw(f"{metadata.text('general.architecture')}.nextn_predict_layers")
    last = config.num_layers + (count if isinstance(count, int) else 0)
    prefixes = tuple(f"blk.{layer}." for layer in range(config.num_layers, last))
    return {tensor for tensor in tensors if tensor.startswith(prefixes)}


def _read_generation(metadata: Metadata) -> JsonFields:
    """Return the fields that a folder has in generation_config.json."""
    fields = {field: metadata.raw(key) for field, key in _SAMPLING.items()}
    ends = {"eos_token_id": [*Vocabulary(metadata).end_ids()]}
    return JsonFields(fields | ends, str(metadata.path), _SAMPLING)


def _divide_frequencies(config: ModelConfig, tensors: GgufTensors) -> ModelConfig:
    """Apply a factor to each frequency: llama.cpp stores Llama 3's scaling so."""
    if (factors := tensors.factors(ROPE_FACTORS)) is None:
        return config
    where = f"{tensors.path(ROPE_FACTORS)}: tensor {ROPE_FACTORS!r}"
    checked = JsonFields({"factors": factors}, where).numbers("factors", len(config.ropes[0].frequencies))
    ropes = []
    for rope in config.ropes:
        frequencies = np.array(rope.frequencies, dtype=np.float32) / np.array(checked, dtype=np.float32)
        ropes.append(replace(rope, frequencies=tuple(frequencies.tolist())))
    return replace(config, ropes=tuple(ropes))


def _restore_heads(tensors: GgufTensors, config: ModelConfig) -> None:
    """Reorder the rows of each query and key head so that rotary embeddings pair its halves, as our kernels do."""
    rotary_dim = _rotary_dim(config)
    for part, num_heads in (("attn_q", config.num_heads), ("attn_k", config.num_kv_heads)):
        names = [f"blk.{layer}.{part}" for layer in range(config.num_layers)]
        held = [f"{name}{end}" for name in names for end in (".weight", ".bias", "_norm.weight")]
        shapes = {name: tensors.shape(name) for name in held if name in tensors}
        of_heads = (num_heads, config.head_dim)  # norms
        mine = [name for name, shape in shapes.items() if shape == of_heads or shape[0] == math.prod(of_heads)]
        if mine:  # tensors of another shape are refused later
            tensors.set_order(mine, halves_of_heads(num_heads, config.head_dim, rotary_dim))


def _restore_rows(tensors: GgufTensors, config: ModelConfig, names: Mapping[str, tuple[str, ...]]) -> None:
    """Reorder the tensors whose rows have another order in every kind of file."""
    for tensor, order in orders_of_rows(config, names).items():
        if tensor in tensors and tensors.shape(tensor)[0] == len(order):  # another shape is refused later
            tensors.set_order([tensor], order)


def _restore_taps(tensors: GgufTensors, config: ModelConfig, names: Mapping[str, tuple[str, ...]]) -> None:
    """Reorder convolutions, which are stored as the taps of each channel, to the channels of each tap."""
    for tensor, ours in names.items():
        shape = (config.hidden_size, len(ours))
        if ours[0].endswith(".conv.0") and tensor in tensors and tensors.shape(tensor) == shape:
            tensors.set_order([tensor], taps_apart(*shape))


def _folder_orders(
    architecture: Architecture, config: ModelConfig, names: Mapping[str, tuple[str, ...]]
) -> dict[str, Order]:
    """Return the row orders of a folder's tensors, also of interleaved queries and keys."""
    orders = orders_of_rows(config, names)
    if architecture.turns_neighbours:
        rotary_dim, heads = _rotary_dim(config), {"q": config.num_heads, "k": config.num_kv_heads}
        parts = {name: ours[0].rpartition(".")[2] for name, ours in names.items() if len(ours) == 1}
        turned = {name: heads[part] for name, part in parts.items() if part in heads}
        orders |= {name: halves_of_heads(count, config.head_dim, rotary_dim) for name, count in turned.items()}
    return orders


def _rotary_dim(config: ModelConfig) -> int:
    return 2 * max(len(rope.frequencies) for rope in config.ropes)


def _restore_shapes(tensors: GgufTensors, config: ModelConfig, names: Mapping[str, tuple[str, ...]]) -> None:
    """Flatten norms of each head, which files hold as a matrix, and make a matrix of one row of a gate vector."""
    shapes = weight_shapes(config)
    for tensor, ours in names.items():
        if tensor in tensors and ours and shapes.keys() >= {*ours}:
            shape = (sum(shapes[name][0] for name in ours), *shapes[ours[0]][1:])
            if 1 in (len(shape), shape[0]):  # then the order of the values does not change
                tensors.set_shape(tensor, shape)
