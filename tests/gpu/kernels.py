"""The time of each kernel on random weights in shapes of real models: `python -m tests.gpu.kernels --json FILE`.

Each figure is the median of passes of one kernel, which are recorded and replayed as a decoder's are, over more memory
than the caches hold. Beside it stand the bytes that it must move, and the share of the device's speed of reading that
these make; and beside the products in bf16 torch's own (cuBLAS), whose bits depend on the number of rows: the
difference is what the guarantee costs.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from services.bench.machine_rates import timed
from services.engine.decoder.native import BLOCK_SIZE, Device, ReadProbe
from services.engine.decoder.native.testing import KvLayer, Operations, PackedWeight
from tests.gpu.shapes import PLANS, ModelShape, Plan
from tests.native.harness.devices import GPU, make_device

_WEIGHT_BITS = {"bf16": 16, "int8": 8, "int4": 9 / 2, "fp8": 8}  # a tile of int4 has its scales
_KV_BYTES = {"f32": (4, 0), "bf16": (2, 0), "int8": (1, 4), "fp8": (1, 4)}  # of a value, and of the scale of a head
_CHUNK = 512  # rows of a weight that are made once and stored again and again
_STORED = 2048  # rows of a context that are stored at once
_MOST_COPIES = 16
_FEW_ROWS = 64

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The time of one kernel."""

    kernel: str
    shape: str
    format: str
    rows: int
    context: int
    bytes: int  # that must be read
    seconds: float | None  # of one call; None where it was only enqueued


def main() -> None:
    """Measure all of a plan, print each figure when it is known, and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=GPU, help="one of tests.native.harness.devices (%(default)s)")
    parser.add_argument("--plan", choices=PLANS, default="whole", help="what is measured (%(default)s)")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the figures go")
    options = parser.parse_args()
    device, plan = make_device(options.device, threads=4), PLANS[options.plan]
    read_rate = measure_read_rate(device, plan)
    figures: list[dict[str, object]] = []
    for figure in kernel_times(device, plan):
        figures.append(asdict(figure))
        print(_line(figure, read_rate), flush=True)
        record = {"device": device.name, "read_rate": read_rate, "kernels": figures}
        options.json.write_text(json.dumps(record, indent=1) + "\n")  # a later one may run out of time


def kernel_times(device: Device, plan: Plan) -> Iterator[KernelTime]:
    """The figures of all kernels, the products first."""
    for name, shape in plan.shapes.items():
        yield from product_times(device, plan, name, shape)
        if torch.cuda.is_available() and plan.runs:
            yield from torch_product_times(plan, name, shape)
        yield from attention_times(device, plan, name, shape)
        yield from small_times(device, plan, name, shape)


def measure_read_rate(device: Device, plan: Plan) -> float:
    """Bytes per second at which the device reads memory, the best of the plan's runs."""
    probe = ReadProbe(device, 16 * plan.cold_bytes)
    return probe.bytes / min(timed(device, lambda: probe.read(True)) for _ in range(max(1, plan.runs)))


def product_times(device: Device, plan: Plan, name: str, shape: ModelShape) -> Iterator[KernelTime]:
    """Of every matrix of a layer, in every format."""
    for matrix, (outputs, inputs) in shape.matrices.items():
        for weight_format in plan.weights:
            num_bytes = int(outputs * inputs * _WEIGHT_BITS[weight_format] / 8)
            copies = _copies(num_bytes, plan)
            weights = [_random_weight(device, weight_format, outputs, inputs) for _ in range(copies)]
            for rows in plan.rows:
                values = _normal(rows, inputs)
                again = _times(num_bytes * copies, rows, plan)
                seconds = _median(PackedWeight.time_products(weights * again, values, plan.runs), copies * again)
                yield KernelTime(f"product {matrix}", name, weight_format, rows, 0, num_bytes, seconds)


def torch_product_times(plan: Plan, name: str, shape: ModelShape) -> Iterator[KernelTime]:
    """Of the same matrices in bf16 by torch, that is by cuBLAS, recorded and replayed alike."""
    for matrix, (outputs, inputs) in shape.matrices.items():
        num_bytes = 2 * outputs * inputs
        copies = _copies(num_bytes, plan)
        weights = [torch.randn(outputs, inputs, dtype=torch.bfloat16, device="cuda") for _ in range(copies)]
        for rows in plan.rows:
            values = torch.randn(rows, inputs, dtype=torch.bfloat16, device="cuda")
            again = _times(num_bytes * copies, rows, plan)
            seconds = _median(_replay_seconds(values, weights * again, plan.runs), copies * again)
            yield KernelTime(f"torch product {matrix}", name, "bf16", rows, 0, num_bytes, seconds)


def _replay_seconds(values: torch.Tensor, weights: list[torch.Tensor], runs: int) -> list[float]:
    graph = torch.cuda.CUDAGraph()
    torch.nn.functional.linear(values, weights[0])  # makes what a recording must not make
    with torch.cuda.graph(graph):
        for weight in weights:
            torch.nn.functional.linear(values, weight)
    began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    seconds = []
    for _ in range(runs):
        began.record()
        graph.replay()
        ended.record()
        ended.synchronize()
        seconds.append(began.elapsed_time(ended) / 1e3)
    return seconds


def attention_times(device: Device, plan: Plan, name: str, shape: ModelShape) -> Iterator[KernelTime]:
    """Times of consecutive rows at the end of one sequence."""
    for cache_format in plan.caches:
        for context in plan.contexts:
            of_value, of_head = _KV_BYTES[cache_format]
            num_bytes = context * 2 * shape.kv_heads * (shape.head_dim * of_value + of_head)
            copies = _copies(num_bytes, plan)
            table = np.arange(-(-context // BLOCK_SIZE), dtype=np.int32)[None]
            layers = [_stored_layer(device, cache_format, shape, context, table) for _ in range(copies)]
            for rows in plan.attention_rows:
                qkv = _normal(rows, (shape.heads + 2 * shape.kv_heads) * shape.head_dim)
                positions = np.arange(context - rows, context, dtype=np.int32)
                again = _times(num_bytes * copies, rows, plan)
                places = positions, np.zeros_like(positions), table
                seconds = _median(KvLayer.time_attention(layers * again, qkv, *places, plan.runs), copies * again)
                yield KernelTime("attention", name, cache_format, rows, context, num_bytes, seconds)


def small_times(device: Device, plan: Plan, name: str, shape: ModelShape) -> Iterator[KernelTime]:
    """Of norms, activations, and rotation with the store into the cache."""
    times = plan.times
    for rows in plan.small_rows:

        def figure(kernel: str, num_format: str, width: int, seconds: list[float], rows: int = rows) -> KernelTime:
            return KernelTime(kernel, name, num_format, rows, 0, 4 * rows * width, _median(seconds, times))

        values, delta = _normal(rows, shape.hidden), _normal(rows, shape.hidden)
        ones = np.ones(shape.hidden, np.float32)
        seconds = Operations.time_residual_norm(device, values, 0.01 * delta, ones, times, plan.runs)
        yield figure("residual_norm", "bf16", 2 * shape.hidden, seconds)
        gate_up = _normal(rows, 2 * shape.intermediate)
        seconds = Operations.time_activate(device, gate_up, times, plan.runs)
        yield figure("activate", "bf16", 2 * shape.intermediate, seconds)
        for cache_format in plan.caches:
            for norm in (None, np.ones(shape.head_dim, np.float32)):
                seconds = _store_seconds(device, plan, shape, cache_format, rows, norm)
                kernel = "rotate_and_store" if norm is None else "rotate_and_store, heads normalised"
                yield figure(kernel, cache_format, (shape.heads + 2 * shape.kv_heads) * shape.head_dim, seconds)


def _store_seconds(
    device: Device, plan: Plan, shape: ModelShape, cache_format: str, rows: int, norm: Floats | None
) -> list[float]:
    layer = KvLayer(device, cache_format, num_blocks=8, num_kv_heads=shape.kv_heads, head_dim=shape.head_dim)
    positions = np.arange(rows, dtype=np.int32)
    return layer.time_rotate_and_store(
        _normal(rows, (shape.heads + 2 * shape.kv_heads) * shape.head_dim),
        positions,
        np.zeros_like(positions),
        np.arange(8, dtype=np.int32)[None],
        angles=_normal(rows, 2, shape.head_dim // 2),
        q_norm=norm,
        k_norm=norm,
        times=plan.times,
        runs=plan.runs,
    )


def _random_weight(device: Device, weight_format: str, outputs: int, inputs: int) -> PackedWeight:
    weight = PackedWeight(device, weight_format, outputs, inputs)
    values = _normal(min(_CHUNK, outputs), inputs)
    for first in range(0, outputs, _CHUNK):
        weight.store(first, values[: outputs - first])
    return weight


def _stored_layer(
    device: Device, cache_format: str, shape: ModelShape, context: int, table: NDArray[np.int32]
) -> KvLayer:
    layer = KvLayer(device, cache_format, num_blocks=table.size, num_kv_heads=shape.kv_heads, head_dim=shape.head_dim)
    qkv = _normal(min(_STORED, context), 3 * shape.kv_heads * shape.head_dim)
    for first in range(0, context, _STORED):
        positions = np.arange(first, min(context, first + _STORED), dtype=np.int32)
        layer.rotate_and_store(
            qkv[: len(positions)],
            positions,
            np.zeros_like(positions),
            table,
            angles=np.zeros((len(positions), 2, 0), np.float32),
            qk_norm="none",
            q_norm=None,
            k_norm=None,
            eps=1e-6,
            query_scale=shape.head_dim**-0.5,
        )
    return layer


def _normal(*shape: int) -> Floats:
    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


def _copies(num_bytes: int, plan: Plan) -> int:
    return min(_MOST_COPIES, max(1, -(-plan.cold_bytes // num_bytes)))


def _times(num_bytes: int, rows: int, plan: Plan) -> int:
    return max(1, plan.run_bytes // num_bytes) if rows <= _FEW_ROWS else 1


def _median(seconds: list[float], count: int) -> float | None:
    return statistics.median(seconds) / count if seconds else None


def _line(figure: KernelTime, read_rate: float) -> str:
    where = f"{figure.kernel:36} {figure.shape:8} {figure.format:5} rows {figure.rows:5} context {figure.context:7}"
    if figure.seconds is None:
        return where
    share = figure.bytes / figure.seconds / read_rate
    return f"{where} {1e6 * figure.seconds:10.1f} µs {share:6.2f} of the reading speed"


if __name__ == "__main__":
    main()
