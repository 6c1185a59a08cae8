"""The architectures that are served.

To add one, write a function from its fields to a ModelConfig and its entry, in the module of its family, a table of its
tensor names, and a test checkpoint.
"""

from collections.abc import Container, Iterable, Mapping
from collections.abc import Sequence as Seq
from itertools import compress, product
from operator import not_

from services.engine.checkpoint.architectures.architecture import Architecture
from services.engine.checkpoint.architectures.cohere import COHERE
from services.engine.checkpoint.architectures.gemma import GEMMA
from services.engine.checkpoint.architectures.glm import GLM
from services.engine.checkpoint.architectures.latent import LATENT
from services.engine.checkpoint.architectures.lfm2 import LFM2
from services.engine.checkpoint.architectures.llama import LLAMA
from services.engine.checkpoint.architectures.mixture import MIXTURES
from services.engine.checkpoint.architectures.olmo import OLMO
from services.engine.checkpoint.architectures.phi import PHI
from services.engine.checkpoint.architectures.qwen import QWEN
from services.engine.checkpoint.architectures.qwen3_5 import QWEN3_5
from services.engine.checkpoint.architectures.qwen3_next import QWEN3_NEXT
from services.engine.checkpoint.architectures.rope import longest_context
from services.engine.checkpoint.architectures.stablelm import STABLELM
from services.engine.checkpoint.architectures.starcoder import STARCODER
from services.engine.checkpoint.architectures.text_part import TEXT_PARTS
from services.engine.checkpoint.architectures.unsupported import reason_for
from services.engine.checkpoint.config_fields import check_fields, warn_of_unknown_fields
from services.engine.checkpoint.model_config import GatedDelta, LatentAttention, ModelConfig, ShortConvolution
from services.engine.files.json_fields import JsonFields, shown

_FAMILIES = (
    *(LLAMA, QWEN, PHI, OLMO, GEMMA, GLM, STABLELM, STARCODER, COHERE, LFM2),
    *(QWEN3_5, QWEN3_NEXT, MIXTURES, LATENT),
)
ARCHITECTURES: dict[str, Architecture] = {name: each for family in _FAMILIES for name, each in family.items()}


def read_architecture(config: JsonFields, context_length: int | None = None) -> tuple[Architecture, ModelConfig]:
    """Pick the architecture that config.json names, and read its configuration.

    `context_length` is the number of positions to serve: fewer than the checkpoint's, or more if its rotary scaling
    allows it. Raises CheckpointError for an unknown architecture, a missing or bad field, and an unsupported feature.
    """
    if (name := _read_name(config)) in TEXT_PARTS:
        config = TEXT_PARTS[name].fields(config)
        name = _read_name(config)
    architecture = ARCHITECTURES[name]
    if (model_type := config.raw("model_type")) != architecture.model_type:
        problem = f"must be {architecture.model_type!r}, as architectures is {name}, is {shown(model_type)}"
        raise config.error("model_type", problem)
    check_fields(config, architecture.fields)
    complete = config.completed(architecture.defaults)
    served = min(longest_context(complete), context_length or complete.integer("max_position_embeddings"))
    model = architecture.read_config(complete, served)
    warn_of_unknown_fields(config, architecture.fields)
    return architecture, model


def expand_names(table: Mapping[str, str], config: ModelConfig) -> dict[str, tuple[str, ...]]:
    """Expand a table of name patterns; returns our names of the weights in each tensor that the files may hold."""
    taps = (layer.taps for layer in config.layers if isinstance(layer, ShortConvolution | GatedDelta))
    numbers: dict[str, Seq[int]] = {
        **layer_numbers(config),
        "e": range(config.experts.count if config.experts else 0),
        **{"h": range(config.num_heads), "k": range(config.num_kv_heads), "t": range(max(taps, default=0))},
        "f": range(config.features.count if config.features else 0),
    }
    expanded: dict[str, tuple[str, ...]] = {}
    for pattern, names in table.items():
        for place in _places(pattern, numbers):
            within = _places(names, {letter: each for letter, each in numbers.items() if letter not in place})
            ours = " ".join(names.format(**place, **each) for each in within)
            expanded[pattern.format(**place)] = tuple(ours.split())
    return {tensor: ours for tensor, ours in expanded.items() if ours}


def layer_numbers(config: ModelConfig) -> dict[str, Seq[int]]:
    """Return the numbers of the layers for which each letter in a pattern stands."""
    layers = range(config.num_layers)
    kinds = {
        "m": [config.experts_of(layer) is not None for layer in config.layers],
        "c": [isinstance(layer, LatentAttention) and layer.query_rank > 0 for layer in config.layers],
    }
    chosen = {letter: [*compress(layers, are)] for letter, are in kinds.items()}
    others = {letter: [*compress(layers, map(not_, kinds[kind]))] for letter, kind in (("d", "m"), ("w", "c"))}
    return {"i": layers, **chosen, **others}


def fitting_names(
    tables: Iterable[Mapping[str, str] | None], config: ModelConfig, held: Container[str]
) -> dict[str, tuple[str, ...]]:
    """Expand the table of name patterns by which the fewest of the `held` tensors are missing; None is no table."""
    expanded = [expand_names(table, config) for table in tables if table]
    return min(expanded, key=lambda names: sum(tensor not in held for tensor in names))


def _places(pattern: str, numbers: Mapping[str, Seq[int]]) -> list[dict[str, int]]:
    """Return all combinations of numbers for the letters in a pattern; the last letter varies fastest."""
    letters = [letter for letter in numbers if f"{{{letter}}}" in pattern]
    return [dict(zip(letters, each, strict=True)) for each in product(*map(numbers.__getitem__, letters))]


def _read_name(config: JsonFields) -> str:
    match config.raw("architectures"):
        case [str(name)] if name in ARCHITECTURES or name in TEXT_PARTS:
            return name
        case [str(name)] if reason := reason_for(name):
            problem = f"{shown([name])} is not supported: {reason}"
        case names:
            problem = f"{shown(names)} is not supported"
    allowed = ", ".join([*ARCHITECTURES, *TEXT_PARTS])
    raise config.error("architectures", f"{problem}; allowed is one of {allowed}")
