"""Roofline: the least time that a pass can take on this machine, by what it must read and what it must compute."""

from dataclasses import dataclass

from services.engine.checkpoint.model_config import ModelConfig
from services.engine.checkpoint.weight_shapes import count_active_parameters
from services.engine.decoder.native import Decoder


@dataclass(frozen=True, slots=True)
class Work:
    """What a pass over one sequence cannot do without; two operations for each product of two numbers."""

    bytes: int  # weights, and keys and values, once; of experts those of one token
    products: int  # operations of products with weights
    attention: int  # operations of attention

    @classmethod
    def of(cls, decoder: Decoder, config: ModelConfig, *, position: int, rows: int, asked: int) -> "Work":
        """The work of rows from `position` on, `asked` of them with logits."""
        head = config.vocab_size * config.hidden_size
        return cls(
            bytes=decoder.weight_bytes + (position + rows) * decoder.kv_bytes_per_token,
            products=2 * (rows * count_active_parameters(config) + asked * head),
            attention=4 * config.num_heads * config.head_dim * _attended(config, position, rows),
        )


@dataclass(frozen=True, slots=True)
class Roofline:
    """What this machine can do, per second; None where that is not known."""

    read_rate: float  # bytes
    product_rate: float | None  # operations, of numbers in registers
    attention_rate: float | None

    def seconds(self, work: Work) -> float:
        """The greater of the time to read and the time to compute: one can be done during the other."""
        parts = ((work.products, self.product_rate), (work.attention, self.attention_rate))
        return max(work.bytes / self.read_rate, sum(operations / rate for operations, rate in parts if rate))


def _attended(config: ModelConfig, position: int, rows: int) -> int:
    """Positions that the rows attend to, in all layers."""
    reached = range(position + 1, position + rows + 1)
    return sum(sum(min(row, window or row) for row in reached) for window in config.windows)
