"""Roofline: the least time that a pass can take on this machine, from the bytes it reads and the operations it does."""

from dataclasses import dataclass

from services.engine.checkpoint.model_config import Attention, GatedDelta, LatentAttention, ModelConfig
from services.engine.checkpoint.weight_shapes import count_active_parameters
from services.engine.decoder.native import Decoder


@dataclass(frozen=True, slots=True)
class Work:
    """The least work of a pass over one sequence, of each device if there are several.

    A multiplication with its addition counts as two operations.
    """

    bytes: int  # of weights, keys and values, each read once; of experts, those of one token; of a state, twice
    products: int  # operations of products with weights
    attention: int  # operations of attention

    @classmethod
    def of(cls, decoder: Decoder, config: ModelConfig, *, position: int, rows: int, num_logits: int) -> "Work":
        """Return the work of rows from `position` on, `num_logits` of them with logits."""
        head, ranks = config.vocab_size * config.hidden_size, decoder.num_ranks
        states = 2 * _state_bytes(config) // ranks
        return cls(
            bytes=decoder.weight_bytes + (position + rows) * decoder.kv_bytes_per_token + states,
            products=2 * (rows * count_active_parameters(config) + num_logits * head) // ranks,
            attention=4 * config.num_heads * _attended(config, position, rows) // ranks,
        )


@dataclass(frozen=True, slots=True)
class Roofline:
    """The rates of this machine per second; None: not known."""

    read_rate: float  # bytes
    product_rate: float | None  # operations on registers
    attention_rate: float | None

    def seconds(self, work: Work) -> float:
        """Return the greater of the time to read and the time to compute: the two overlap."""
        parts = ((work.products, self.product_rate), (work.attention, self.attention_rate))
        return max(work.bytes / self.read_rate, sum(operations / rate for operations, rate in parts if rate))


def _state_bytes(config: ModelConfig) -> int:
    """Return the bytes of a sequence's states, without the rings of their inputs."""
    states = [layer for layer in config.layers if isinstance(layer, GatedDelta)]
    return 4 * sum(layer.value_heads * layer.key_dim * layer.value_dim for layer in states)


def _attended(config: ModelConfig, position: int, rows: int) -> int:
    """Return how many positions the rows attend to, times the size of a head, in all layers together."""
    reached = range(position + 1, position + rows + 1)
    layers = [layer for layer in config.layers if isinstance(layer, Attention)]
    latent = [(layer.width + layer.rank) // 2 for layer in config.layers if isinstance(layer, LatentAttention)]
    return sum(reached) * sum(latent) + sum(
        config.head_dim_of(each) * sum(min(row, each.window or row) for row in reached) for each in layers
    )
