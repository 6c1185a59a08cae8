"""How close passes through experts come to the memory's speed: `python -m benchmarks.experts`.

For each format and number of rows, with different tokens in every pass, it prints how many experts of a layer are used
and a fraction: the time to read these experts and all other weights, at the rate measured in the same run, over the
time of the pass. The model is random, with layers as OLMoE's. Its sublayers add zero to the residual, so that a row's
experts depend on its token only and can be counted here.
"""

import argparse
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from services.bench.machine_rates import MachineRates, timed
from services.bench.spread import Spread
from services.engine.checkpoint.model_config import (
    Activation,
    Attention,
    Experts,
    ExpertScores,
    ModelConfig,
    Rope,
)
from services.engine.checkpoint.weight_shapes import weight_shapes
from services.engine.config import CPU_WEIGHT_FORMATS, resolve_isa, resolve_threads
from services.engine.decoder.native import Batch, Decoder, DecoderConfig, Device

_EXPERTS = Experts(count=64, per_token=8, size=1024, are_normalised=False)
_MODEL = ModelConfig(
    architecture="experts",
    layers=(Attention(), Attention()),
    hidden_size=2048,
    intermediate_size=0,
    num_heads=16,
    num_kv_heads=16,
    head_dim=128,
    vocab_size=4096,
    max_position=32,
    norm_eps=1e-5,
    activation=Activation.SILU,
    query_scale=128**-0.5,
    ropes=(Rope(frequencies=(1.0,) * 64),),
    tied_embeddings=True,
    experts=_EXPERTS,
)
Floats = NDArray[np.float32]


def main(arguments: Seq[str] | None = None) -> None:
    """Print the table of fractions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", default=resolve_isa(), help="instruction set (%(default)s)")
    parser.add_argument("--weights", nargs="+", default=["bf16", "int8", "int4"], choices=CPU_WEIGHT_FORMATS)
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 4, 16], help="rows of a pass (%(default)s)")
    parser.add_argument("--scores", default="softmax", choices=[*ExpertScores], help="of experts (%(default)s)")
    parser.add_argument("--runs", type=int, default=25, help="timings of each pass (%(default)s)")
    options = parser.parse_args(arguments)
    device = Device.cpu(options.isa, resolve_threads())
    model = replace(_MODEL, experts=replace(_EXPERTS, scores=options.scores))
    print("| weights | rows | experts of 64 | MB | ms | fraction |\n|---|---|---|---|---|---|")
    for weights in options.weights:
        for line in _lines(device, model, weights, options.rows, options.runs):
            print(line, flush=True)


def _lines(device: Device, model: ModelConfig, weights: str, counts: Seq[int], runs: int) -> Iterator[str]:
    rng = np.random.default_rng(0)
    values = _values(rng)
    decoder = Decoder(device, DecoderConfig(model), weights=weights, kv="bf16", num_blocks=max(counts))
    for name in weight_shapes(_MODEL):
        decoder.load(name, values[_kind(name)])
    one, two = (_least_bytes(device, weights, per_token) for per_token in (1, 2))
    per_expert = (two - one) // _MODEL.num_layers
    shared = one - per_expert * _MODEL.num_layers
    rates = MachineRates(device, weights=weights, num_bytes=decoder.weight_bytes)
    for rows in counts:
        drawn = [rng.choice(_MODEL.vocab_size, rows, replace=False) for _ in range(runs)]
        used = [_count_used(values, tokens) for tokens in drawn]  # before timing: numpy's threads spin for a while
        num_bytes = [shared + count * per_expert * _MODEL.num_layers for count in used]
        seconds, reads = [], []
        for tokens in drawn:
            batch = _batch(tokens.tolist())
            seconds.append(timed(device, lambda batch=batch: decoder.forward(batch)))  # type: ignore[misc]
            reads.append([measure() for measure in rates.measures])
        rate = rates.read_rate(np.array(reads).T.tolist()).median
        fraction = Spread.of([each / taken / rate for each, taken in zip(num_bytes, seconds, strict=True)])
        megabytes, milliseconds = np.median(num_bytes) / 1e6, np.median(seconds) * 1e3
        figures = f"{np.mean(used):.1f} | {megabytes:.0f} | {milliseconds:.1f} | {fraction.median:.2f}"
        yield f"| {weights} | {rows} | {figures} |"


def _values(rng: np.random.Generator) -> dict[str, Floats]:
    """Return the numbers of each kind of weights, which all layers and experts share; sublayers' outputs are zero."""
    values = {}
    for kind, shape in {_kind(name): shape for name, shape in weight_shapes(_MODEL).items()}.items():
        numbers = rng.standard_normal(shape).astype(np.float32) * shape[-1] ** -0.5
        adds = kind in {"down", "o"}
        values[kind] = np.ones_like(numbers) if kind.endswith("norm") else 0 * numbers if adds else numbers
    return values


def _kind(name: str) -> str:
    return name.rpartition(".")[2]


def _count_used(values: dict[str, Floats], tokens: NDArray[np.int64]) -> int:
    """Count the experts of a layer that the tokens are routed to; all layers have the same router."""
    logits = values["embedding"][tokens] @ values["router"].T  # the norm changes no order
    return len(np.unique(np.argsort(-logits, axis=1)[:, : _EXPERTS.per_token]))


def _least_bytes(device: Device, weights: str, per_token: int) -> int:
    config = replace(_MODEL, experts=replace(_EXPERTS, per_token=per_token))
    return Decoder(device, DecoderConfig(config), weights=weights, kv="bf16").weight_bytes


def _batch(token_ids: Seq[int]) -> Batch:
    """Return a batch with one sequence of one token for each id; all logits are computed."""
    batch = Batch(max_rows=len(token_ids), max_sequences=len(token_ids), max_blocks=1)
    for block, token in enumerate(token_ids):
        batch.append([token], position=0, blocks=[block], num_logits=1)
    return batch


if __name__ == "__main__":
    main()
