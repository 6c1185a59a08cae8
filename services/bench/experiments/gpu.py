"""What limits passes on a GPU: `python -m services.bench.experiments.gpu --models DIR --json FILE`.

DIR holds 1b/ and 8b/, as `python -m services.bench.experiments.make_pair` makes them. Every figure is set against what
the same run measures of the GPU: passes over few rows against the rate at which it reads memory, prefills against its
rate of bf16 matrix products. A figure that cannot be measured is an error in the file, and the others are there.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from services.bench.decoder_figures import measure_decoder
from services.engine.config import EngineConfig, resolve_isa, resolve_threads
from services.engine.decoder.native import BLOCK_SIZE, Batch
from services.engine.loaded_model import LoadedModel

_CONTEXT, _PREFILL, _SEQUENCES = 1024, 2048, 64
_RUNS = 20
_MATRIX = 8192
_MODELS = (("8b", "bf16"), ("8b", "int8"), ("8b", "int4"), ("1b", "bf16"))

Figures = Mapping[str, Any]


def main() -> None:
    """Measure all, print each when it is known, and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, metavar="DIR", help="of 1b/ and 8b/")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the figures go")
    options = parser.parse_args()
    record: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "matrix_rate": matrix_rate()}

    def note(name: str, measure: Callable[[], Figures]) -> None:
        try:
            record[name] = measure()
        except Exception as error:  # whatever it is, it belongs to this figure
            record[name] = {"error": f"{type(error).__name__}: {error}"}
        print(name, json.dumps(record[name]), flush=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")

    for shape, weights in _MODELS:
        note(f"{shape} {weights}", partial(decode_figures, options.models / shape / "target", weights))
    for shape in ("8b", "1b"):
        folder = options.models / shape / "target"
        note(f"{shape} prefill", partial(prefill_figures, folder, record["matrix_rate"]))
        note(f"{shape} sequences", partial(many_sequences_figures, folder))


def matrix_rate() -> float:
    """Operations per second of torch's bf16 product of square random matrices, the median."""
    left, right = (torch.randn(_MATRIX, _MATRIX, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def multiply() -> None:
        torch.matmul(left, right)
        torch.cuda.synchronize()

    return 2 * _MATRIX**3 / median_seconds(multiply)


def decode_figures(folder: Path, weights: str) -> dict[str, Any]:
    """The bandwidth fraction, and passes over more rows beside one over one."""
    model = _load(folder, weights, blocks=_CONTEXT // BLOCK_SIZE + 8)
    figures = measure_decoder(model, context=_CONTEXT, runs=_RUNS)
    one = figures.medians[1]
    costs = {f"v({rows})": seconds / one for rows, seconds in figures.medians.items()}
    return {"bandwidth_fraction": figures.bandwidth_fraction, **costs, "all": asdict(figures)}


def prefill_figures(folder: Path, matrix_rate: float) -> dict[str, float]:
    """The share of the matrix rate that a prefill's products have; the attention's operations are not counted."""
    model = _load(folder, "bf16", blocks=_PREFILL // BLOCK_SIZE)
    batch = Batch(max_rows=_PREFILL, max_sequences=1, max_blocks=model.decoder.num_blocks)
    token_ids = [row % 97 for row in range(_PREFILL)]
    batch.append(token_ids, position=0, blocks=list(range(model.decoder.num_blocks)), num_logits=1)
    seconds = _pass_seconds(model, batch)
    shape = model.checkpoint.config
    num_bytes = model.decoder.weight_bytes - 2 * shape.vocab_size * shape.hidden_size  # one row asks for logits
    operations = num_bytes * _PREFILL  # two for each weight, which has two bytes
    return {"seconds": seconds, "tokens_per_second": _PREFILL / seconds, "share": operations / seconds / matrix_rate}


def many_sequences_figures(folder: Path) -> dict[str, float]:
    """A pass over one row each of many sequences, beside the time that reading weights, keys and values takes."""
    blocks_each = _CONTEXT // BLOCK_SIZE + 1
    model = _load(folder, "bf16", blocks=_SEQUENCES * blocks_each)
    batch = Batch(max_rows=_CONTEXT, max_sequences=_SEQUENCES, max_blocks=blocks_each)
    tables = [list(range(first, first + blocks_each)) for first in range(0, _SEQUENCES * blocks_each, blocks_each)]
    batch.append([row % 97 for row in range(_CONTEXT)], position=0, blocks=tables[0], num_logits=1)
    model.decoder.forward(batch)
    for table in tables[1:]:
        for source, target in zip(tables[0], table, strict=True):
            model.decoder.copy_block(source, target)
    batch.clear()
    for sequence, table in enumerate(tables):
        batch.append([sequence], position=_CONTEXT, blocks=table, num_logits=1)
    seconds = _pass_seconds(model, batch)
    num_bytes = model.decoder.weight_bytes + _SEQUENCES * _CONTEXT * model.decoder.kv_bytes_per_token
    read_rate = measure_decoder(model, context=_CONTEXT, runs=3).read_rate.median
    return {"seconds": seconds, "bytes": num_bytes, "share": num_bytes / read_rate / seconds}


def median_seconds(action: Callable[[], object]) -> float:
    """Of as many runs as every figure has, behind a few that warm up."""
    for _ in range(3):
        action()
    times = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _pass_seconds(model: LoadedModel, batch: Batch) -> float:
    def run() -> None:
        model.decoder.forward(batch)
        model.device.synchronize()

    return median_seconds(run)


def _load(folder: Path, weights: str, *, blocks: int) -> LoadedModel:
    isa, threads = resolve_isa(), resolve_threads()
    return LoadedModel.load(
        EngineConfig(model=folder, device="cuda:0", isa=isa, threads=threads, weights=weights, kv_blocks=blocks)
    )


if __name__ == "__main__":
    main()
