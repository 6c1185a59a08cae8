"""folder_source: reads a Hugging Face folder as a CheckpointSource."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count, takewhile
from pathlib import Path

import numpy as np

from services.engine.checkpoint.absent_biases import without_absent_biases
from services.engine.checkpoint.architectures.architecture import Architecture, MtpNames
from services.engine.checkpoint.architectures.table import fitting_names, read_architecture
from services.engine.checkpoint.architectures.text_part import find_prefix, renamed, text_name
from services.engine.checkpoint.attached.drafter_kind import is_drafter
from services.engine.checkpoint.attached.mtp import mtp_config, mtp_names, mtp_source
from services.engine.checkpoint.checkpoint_source import CheckpointSource, shared_keys
from services.engine.checkpoint.generation_defaults import (
    read_eos_token_ids,
    read_generation_defaults,
    warn_of_ignored_settings,
)
from services.engine.checkpoint.latent_tensors import LatentTensors, whole_name
from services.engine.checkpoint.model_config import Experts, ModelConfig
from services.engine.checkpoint.ordered_tensors import (
    ExpertStacks,
    Order,
    OrderedTensors,
    gates_before_ups,
    halves_of_heads,
    orders_of_rows,
    taps_apart,
)
from services.engine.checkpoint.quantised.methods import Method, read_method
from services.engine.checkpoint.quantised.quantised_tensors import QuantisedTensors
from services.engine.checkpoint.safetensors_file import FLOATS
from services.engine.checkpoint.stored_tensors import StoredTensors
from services.engine.checkpoint.tensor_files import TensorFiles
from services.engine.checkpoint.token_rules import read_forced_ids, read_token_rules
from services.engine.checkpoint.weight_shapes import weight_shapes
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import JsonFields

# Old checkpoints store what config.json implies.
RECOMPUTED = tuple(f".{name}" for name in ("inv_freq", "cos_cached", "sin_cached", "masked_bias"))
_Names = Mapping[str, tuple[str, ...]]


def read_folder(folder: Path, context_length: int | None) -> CheckpointSource:
    """Read a folder's configuration and open its weights; raises CheckpointError naming the file at fault."""
    fields = JsonFields.from_file(folder / "config.json")
    if is_drafter(fields):
        raise CheckpointError(f"{fields.where}: describes an attached drafter, which is given as --head of its model")
    generation = JsonFields.from_file_if_any(folder / "generation_config.json")
    architecture, config = read_architecture(fields, context_length)
    defaults = read_generation_defaults(generation)
    eos_token_ids = read_eos_token_ids(generation, fields, config.vocab_size)
    token_rules = read_token_rules(generation, vocab_size=config.vocab_size, eos_token_ids=eos_token_ids)
    warn_of_ignored_settings(generation)
    stored, idle = _open(folder, read_method(fields))
    tensors = stored
    held = {*map(text_name, tensors)}
    of_text = fitting_names((architecture.names, architecture.stacked_names), config, held)
    names, others = _find_names(of_text, tensors)
    require_values(tensors, {*map(whole_name, names)})
    config = without_absent_biases(_untie(config, names, tensors), names, tensors)
    if architecture.stacks_experts or architecture.stacked_names:
        tensors = ExpertStacks(tensors, by_inputs=architecture.stacks_experts)
    if config.latent:
        tensors = LatentTensors(tensors, config.latent, config.num_heads)
    if orders := _orders(architecture, config, names, tensors):
        tensors = OrderedTensors(tensors, orders)
    unused = idle | {name for name in tensors if name.endswith(RECOMPUTED)} | shared_keys(config, names)
    tied = {_named(names, "lm_head")} if config.tied_embeddings else set()
    further = _find_mtp(architecture, config, tensors)
    source = CheckpointSource(
        path=folder,
        described_by="config.json",
        config=config,
        generation=defaults,
        token_rules=token_rules,
        forced_ids=read_forced_ids(generation, vocab_size=config.vocab_size),
        eos_token_ids=eos_token_ids,
        tensors=tensors,
        names=names,
        folder_names={whole_name(name): ours for name, ours in of_text.items()},
        folder_orders={text_name(name): order for name, order in orders.items()},
        ignored=frozenset(others | further | unused | tied),
        norms_are_offsets=architecture.norms_are_offsets,
    )
    if (mtp := architecture.mtp) is None or not further:
        return source
    return replace(source, read_mtp=partial(_read_mtp, source, architecture, mtp, stored, further - unused))


def _find_mtp(architecture: Architecture, config: ModelConfig, tensors: StoredTensors) -> set[str]:
    """Return the tensors of layers for multi-token prediction, which no architecture reads as its own."""
    if (mtp := architecture.mtp) is None:
        return {name for name in tensors if name.startswith("mtp.")}
    prefixes = [mtp.prefix]
    if "{n}" in mtp.prefix:  # a layer of the model without it is not named so
        fc = mtp.prefix + next(name for name, ours in mtp.others.items() if ours == "fc")
        numbers = takewhile(lambda number: fc.format(n=number) in tensors, count(config.num_layers))
        prefixes = [mtp.prefix.format(n=number) for number in numbers]
    return {name for name in tensors if name.startswith(tuple(prefixes))}


def _read_mtp(
    model: CheckpointSource, architecture: Architecture, mtp: MtpNames, stored: StoredTensors, own: set[str]
) -> CheckpointSource:
    """Read the layer for multi-token prediction as a drafter that takes the output of the model's final norm."""
    config, tensors = mtp_config(model.config), model.tensors
    prefix, layer = (text.format(n=model.config.num_layers) for text in (mtp.prefix, mtp.layer))
    others = {_named(model.names, "final_norm"): "feature_norm"}
    others |= {prefix + name: ours for name, ours in mtp.others.items()}
    tables = (architecture.names, architecture.stacked_names)
    names = mtp_names(tables, config, tensors, others, model_layer="model.layers.{i}.", mtp_layer=layer)
    require_values(stored, {*map(whole_name, names)})
    if orders := _orders(architecture, config, names, tensors):
        tensors = OrderedTensors(tensors, orders)
    copies = {prefix + name for name in mtp.copies}
    return mtp_source(model, config, tensors, names, {name for name in tensors if name not in own} | copies)


def _open(folder: Path, method: Method | None) -> tuple[StoredTensors, set[str]]:
    """Open the files; also returns the tensors without effect."""
    files = TensorFiles(folder)
    if method is None:
        return files, set()
    tensors = QuantisedTensors(files, method)
    return tensors, tensors.idle_biases()


def require_values(tensors: StoredTensors, names: Iterable[str]) -> None:
    """Raise CheckpointError for a weight whose values are no floats, unless it is a quantised matrix."""
    for name in names:
        is_matrix = isinstance(tensors, QuantisedTensors) and tensors.is_matrix(name)
        if name in tensors and not is_matrix and (kind := tensors.kind(name)) not in FLOATS:
            raise CheckpointError(
                f"{tensors.path(name)}: tensor {name!r} is {kind}; it must be {', '.join(FLOATS)}, or quantised as "
                "quantization_config says"
            )


def _find_names(names: _Names, tensors: StoredTensors) -> tuple[_Names, set[str]]:
    """Return our names of the weights in each tensor, and in a multimodal folder the tensors outside the text part."""
    if (prefix := find_prefix(tensors)) is None:
        return names, set()
    of_text = {renamed(tensor, prefix, tensors): ours for tensor, ours in names.items()}
    return of_text, {name for name in tensors if name not in of_text and not name.startswith(prefix)}


def _named(names: _Names, ours: str) -> str:
    """Return the tensor that holds one of our weights alone."""
    return next(tensor for tensor, held in names.items() if held == (ours,))


def _untie(config: ModelConfig, names: _Names, tensors: StoredTensors) -> ModelConfig:
    """Untie the embeddings if a tied checkpoint holds an output matrix that differs, as transformers does."""
    head, embedding = _named(names, "lm_head"), _named(names, "embedding")
    if not config.tied_embeddings or head not in tensors or embedding not in tensors:
        return config
    if tensors.shape(head) != tensors.shape(embedding):
        return replace(config, tied_embeddings=False)
    one, other = (tensors.rows(name, 0, tensors.shape(name)[0]) for name in (head, embedding))
    return replace(config, tied_embeddings=np.array_equal(one, other))


def _orders(architecture: Architecture, config: ModelConfig, names: _Names, tensors: StoredTensors) -> dict[str, Order]:
    """Return, for tensors whose rows have another order in the file, the file's row of each of our rows."""
    if architecture.turns_neighbours:
        return _orders_of_heads(config, names, tensors)
    if architecture.stacks_experts and config.experts:
        return _orders_of_experts(config.experts, names, tensors)
    return _orders_of_taps(config, names, tensors) | _orders_of_rows(config, names, tensors)


def _orders_of_experts(experts: Experts, names: _Names, tensors: StoredTensors) -> dict[str, Order]:
    """Return the orders of tensors with interleaved gates and ups, and of matrices of one vector for each expert."""
    orders: dict[str, Order] = {}
    for name, ours in names.items():
        if ".experts." in ours[0] and name in tensors:
            size, is_vector = math.prod(tensors.shape(name)), ours[0].endswith("_bias")
            order = gates_before_ups(experts.count, experts.size) if ".gate" in ours[0] else np.arange(size)
            if len(order) == (size if is_vector else tensors.shape(name)[0]):  # another shape is refused
                orders[name] = order
    return orders


def _orders_of_taps(config: ModelConfig, names: _Names, tensors: StoredTensors) -> dict[str, Order]:
    """Return the orders of convolutions that are stored as the taps of each channel."""
    channels = {name: shape[0] for name, shape in weight_shapes(config).items() if name.endswith("conv.0")}
    held = {name: ours for name, ours in names.items() if ours[0] in channels and name in tensors}
    return {
        name: taps_apart(channels[ours[0]], len(ours))
        for name, ours in held.items()
        if tensors.shape(name) == (channels[ours[0]], 1, len(ours))  # another shape is refused, and may be huge
    }


def _orders_of_rows(config: ModelConfig, names: _Names, tensors: StoredTensors) -> dict[str, Order]:
    """Return the orders that every kind of file has, without those of tensors of other shapes."""
    orders = {name: order for name, order in orders_of_rows(config, names).items() if name in tensors}
    return {name: order for name, order in orders.items() if tensors.shape(name)[:1] == (len(order),)}


def _orders_of_heads(config: ModelConfig, names: _Names, tensors: StoredTensors) -> dict[str, Order]:
    """Return the orders of queries and keys with interleaved rotary embeddings: we rotate halves of heads."""
    rotary_dim = 2 * max(len(rope.frequencies) for rope in config.ropes)
    orders: dict[str, Order] = {}
    for part, num_heads in (("q", config.num_heads), ("k", config.num_kv_heads)):
        order = halves_of_heads(num_heads, config.head_dim, rotary_dim)
        parts = {f".{part}", f".{part}_bias"}
        held = {name: ours for name, ours in names.items() if name in tensors}
        mine = [name for name, ours in held.items() if _end(ours[0]) in parts]
        orders |= {name: order for name in mine if tensors.shape(name)[:1] == (len(order),)}  # another shape is refused
        norms = [name for name, ours in held.items() if f".{part}_norm." in ours[0]]
        orders |= {name: order for name in norms if tensors.shape(name) == (num_heads, config.head_dim)}
    return orders


def _end(name: str) -> str:
    return name[name.rfind(".") :]
