"""What layers with states, or with latent vectors, cost: `python -m benchmarks.states`.

Two random models are timed in turn: one with states in three of four layers, as in Qwen 3.5, or with latent vectors in
all, as in GLM 4.7 Flash, and one whose layers all attend to keys and values, with MLPs so much wider that both have as
many weights. The table has the medians of both, and the median of the pairs' ratios.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

import numpy as np

from services.bench.machine_rates import timed
from services.engine.checkpoint.model_config import (
    Activation,
    Attention,
    GatedDelta,
    LatentAttention,
    ModelConfig,
    QkNorm,
    Rope,
)
from services.engine.checkpoint.weight_shapes import weight_shapes
from services.engine.config import CPU, resolve_isa, resolve_threads
from services.engine.decoder.native import BLOCK_SIZE, Batch, Decoder, DecoderConfig, Device

_ATTENDING = ModelConfig(
    architecture="states",
    layers=(Attention(),) * 8,
    hidden_size=0,
    intermediate_size=0,
    num_heads=0,
    num_kv_heads=0,
    head_dim=256,
    vocab_size=4096,
    max_position=1 << 16,
    norm_eps=1e-6,
    activation=Activation.SILU,
    query_scale=256**-0.5,
    ropes=(Rope(frequencies=(1.0,) * 32),),
    tied_embeddings=True,
    qk_norm=QkNorm.HEAD,
    attention_gate=True,
)
_PLAIN = replace(_ATTENDING, qk_norm=QkNorm.NONE, attention_gate=False)
_SHAPES = {
    "0.8b": replace(_ATTENDING, hidden_size=1024, intermediate_size=3584, num_heads=8, num_kv_heads=2),
    "4b": replace(_ATTENDING, hidden_size=2560, intermediate_size=9216, num_heads=16, num_kv_heads=4),
    "flash": replace(_PLAIN, hidden_size=2048, intermediate_size=4096, num_heads=20, num_kv_heads=4, head_dim=128),
    "smallest": replace(_ATTENDING, hidden_size=64, intermediate_size=96, num_heads=2, num_kv_heads=1),
    "tiny": replace(_PLAIN, hidden_size=64, intermediate_size=96, num_heads=2, num_kv_heads=1, head_dim=64),
}
_VALUE_HEADS = {"0.8b": 16, "4b": 32, "smallest": 16}
_LATENTS = {
    "flash": LatentAttention(query_rank=768, rank=512, turning=64, key_dim=192, value_dim=256, norm_eps=1e-6),
    "tiny": LatentAttention(query_rank=64, rank=64, turning=64, key_dim=32, value_dim=32, norm_eps=1e-6),
}
_RING_ROWS = 24


def main(arguments: Seq[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=CPU, help="cpu, or cuda for the first GPU (%(default)s)")
    parser.add_argument("--shapes", nargs="+", choices=_SHAPES, default=["0.8b"], help="sizes of layers (%(default)s)")
    parser.add_argument("--weights", nargs="+", default=["bf16"], help="formats of weights (%(default)s)")
    parser.add_argument("--context", type=int, default=256, help="tokens before the rows (%(default)s)")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of a prompt (%(default)s)")
    parser.add_argument("--sequences", type=int, default=4, help="of a pass with one row each (%(default)s)")
    parser.add_argument("--runs", type=int, default=15, help="timings of each pass (%(default)s)")
    options = parser.parse_args(arguments)
    threads = resolve_threads()
    device = Device.cpu(resolve_isa(), threads) if options.device == CPU else Device.cuda(0, threads)
    print(f"{device.name}\n| shape | weights | pass | these, ms | attention, ms | ratio |\n|---|---|---|---|---|---|")
    for shape in options.shapes:
        for weights in options.weights:
            for line in _lines(device, shape, weights, options):
                print(line, flush=True)


def _lines(device: Device, shape: str, weights: str, options: argparse.Namespace) -> Iterator[str]:
    sizes = (options.context, options.prompt, options.sequences)
    pair = [_Model(device, config, weights, *sizes) for config in _configs(shape)]
    for name in pair[0].passes:
        both = [model.passes[name] for model in pair]
        for run in both:
            run()  # warm up
        times = [[timed(device, run) for run in both] for _ in range(options.runs)]
        carried, attended = (1e3 * statistics.median(each) for each in zip(*times, strict=True))
        ratio = statistics.median(ours / theirs for ours, theirs in times)
        yield f"| {shape} | {weights} | {name} | {carried:.2f} | {attended:.2f} | {ratio:.3f} |"


def _configs(shape: str) -> tuple[ModelConfig, ModelConfig]:
    """The model with states or latent vectors, and the one without."""
    attending = _SHAPES[shape]
    if latent := _LATENTS.get(shape):
        return _with_as_many_weights(replace(attending, layers=(latent,) * attending.num_layers), attending)
    delta = GatedDelta(key_heads=16, value_heads=_VALUE_HEADS[shape], key_dim=128, value_dim=128, taps=4)
    layers = (delta, delta, delta, Attention()) * (attending.num_layers // 4)
    return _with_as_many_weights(replace(attending, layers=layers), attending)


def _with_as_many_weights(ours: ModelConfig, attending: ModelConfig) -> tuple[ModelConfig, ModelConfig]:
    more = (_num_weights(ours) - _num_weights(attending)) / (3 * attending.hidden_size * attending.num_layers)
    width = attending.intermediate_size + BLOCK_SIZE * round(more / BLOCK_SIZE)
    return ours, replace(attending, intermediate_size=width)


def _num_weights(config: ModelConfig) -> int:
    return sum(math.prod(shape) for shape in weight_shapes(config).values())


@dataclass
class _Model:
    """One model, and its passes by name. What the cache and the states hold does not affect their time."""

    device: Device
    config: ModelConfig
    weights: str
    context: int
    prompt: int
    sequences: int

    def __post_init__(self) -> None:
        self._blocks_each = -(-max(self.context + BLOCK_SIZE, self.prompt) // BLOCK_SIZE)
        num_blocks = self._blocks_each * self.sequences
        config = DecoderConfig(self.config)
        self._decoder = Decoder(self.device, config, weights=self.weights, kv="bf16", num_blocks=num_blocks)
        if self.config.has_states:
            self._decoder.allocate_states(num_slots=self.sequences, ring_rows=_RING_ROWS)
        values = np.random.default_rng(0).standard_normal(1 << 20).astype(np.float32)
        for name, shape in weight_shapes(self.config).items():
            self._decoder.load(name, np.resize(values, shape) * (shape[-1] ** -0.5 if len(shape) > 1 else 0.1))
        rows = max(self.prompt, self.sequences, 8)
        self._batch = Batch(max_rows=rows, max_sequences=self.sequences, max_blocks=self._blocks_each)
        self.passes: dict[str, Callable[[], None]] = {
            "1 row": lambda: self._run(1, 1),
            "8 rows": lambda: self._run(1, 8),
            f"{self.sequences} sequences": lambda: self._run(self.sequences, 1),
            f"prompt of {self.prompt}": lambda: self._run(1, self.prompt, position=0),
        }

    def _run(self, sequences: int, rows: int, position: int | None = None) -> None:
        """Compute so many rows of each sequence; but for a prompt's, only the first is certain."""
        self._batch.clear()
        is_prompt = position is not None
        start = self.context if position is None else position
        for sequence in range(sequences):
            first = sequence * self._blocks_each
            self._batch.append(
                [(start + row) % 97 for row in range(rows)],
                position=start,
                blocks=list(range(first, first + self._blocks_each)),
                num_logits=1 if is_prompt else rows,
                slot=sequence if self.config.has_states else None,
                state_position=start,
                certain=start + (rows if is_prompt else 1),
            )
        self._decoder.forward(self._batch)


if __name__ == "__main__":
    main()
