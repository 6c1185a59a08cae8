"""weight_choice: chooses the weight format that is read fastest, or the one closest to the files."""

from dataclasses import dataclass

from services.engine.checkpoint.model_config import Attention, ModelConfig
from services.engine.checkpoint.weight_shapes import count_parameters

AUTO, STORED = "auto", "stored"
"""The fastest format for a model, and the integers of its files unchanged."""

_CACHED_BYTES = 32 << 20  # of weights in bf16 that fit in the caches of a server's cores
_INT4_GROUP = 32  # inputs that share a scale


@dataclass(frozen=True, slots=True)
class WeightChoice:
    """A weight format, and the reason for it."""

    weights: str
    reason: str


def choose_stored(*, is_grouped: bool, on_cpu: bool) -> WeightChoice:
    """Return STORED if the files hold integers in groups and the device supports them, else bf16."""
    if is_grouped and not on_cpu:
        return WeightChoice("bf16", "a GPU does not hold integers as the files do")
    return WeightChoice(STORED if is_grouped else "bf16", "as near to the files as can be")


def choose_weights(model: ModelConfig, *, on_cpu: bool, is_grouped: bool = False) -> WeightChoice:
    """Return the fastest format for passes over few rows; a draft's format never changes its target's text."""
    if on_cpu and is_grouped:
        return WeightChoice(STORED, "the files hold few bytes already")
    parameters = count_parameters(model)
    if 2 * parameters <= _CACHED_BYTES:
        return WeightChoice("bf16", f"{parameters:,} parameters stay in the caches in any format")
    experts = model.experts.size if model.experts else 0
    heads = {model.num_heads * model.head_dim_of(each) for each in model.layers if isinstance(each, Attention)}
    if latent := model.latent:
        heads = {model.num_heads * latent.value_dim, latent.key_dim, latent.rank, latent.query_rank}
    sizes = {*map(model.mlp_size, model.layers)}
    inputs = (model.hidden_size, *sorted(heads), experts, *sorted(sizes), model.layer_input_size)
    if odd := [size for size in inputs if size % _INT4_GROUP]:
        return WeightChoice("int8", f"a product over {odd[0]} inputs does not divide into int4's groups")
    return WeightChoice("int4", "the fewest bytes to read")
