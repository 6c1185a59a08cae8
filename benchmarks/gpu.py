"""What limits passes on a GPU: `python -m benchmarks.gpu --models DIR --json FILE`.

DIR holds 1b/ and 8b/, as `python -m benchmarks.make_pair` makes them. Every figure is compared with a
rate of the GPU from the same run: passes over few rows with the rate at which it reads memory, prefills with its rate
of bf16 matrix products. If a figure cannot be measured, the file has an error in its place and the exit code is 1.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from services.bench.decoder_figures import measure_decoder
from services.engine.config import CPU, EngineConfig, resolve_isa, resolve_threads
from services.engine.decoder.native import BLOCK_SIZE, Batch
from services.engine.loaded_model import LoadedModel

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The models to measure, and the sizes to measure them with, in tokens."""

    context: int = 1024
    prefill: int = 2048
    sequences: int = 64
    runs: int = 20
    matrix: int = 8192
    models: Seq[tuple[str, str]] = (("8b", "bf16"), ("8b", "int8"), ("8b", "int4"), ("1b", "bf16"))

    @property
    def shapes(self) -> list[str]:
        """The shapes of the models, without repetitions."""
        return [*dict.fromkeys(shape for shape, _ in self.models)]


_SMALLEST = Sizes(
    context=40, prefill=40, sequences=2, runs=1, matrix=64, models=(("smallest", "bf16"), ("smallest", "int4"))
)


def main() -> int:
    """Measure all figures; print and save each as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, metavar="DIR", help="the folder of 1b/ and 8b/")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="the file to write the figures to")
    parser.add_argument("--device", default="cuda:0", help="the device to measure (%(default)s)")
    parser.add_argument("--smallest", action="store_true", help="measure only smallest/, to check that everything runs")
    options = parser.parse_args()
    passes = _Passes(options.device, _SMALLEST if options.smallest else Sizes())
    sizes = passes.sizes
    record: dict[str, Any] = {"gpu": options.device if options.device == CPU else torch.cuda.get_device_name()}
    record["matrix_rate"] = passes.matrix_rate()

    def note(name: str, measure: Callable[[], Figures]) -> None:
        try:
            record[name] = measure()
        except Exception as error:  # any failure is this figure's; the others are still measured
            record[name] = {"error": f"{type(error).__name__}: {error}"}
        print(name, json.dumps(record[name]), flush=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")

    for shape, weights in sizes.models:
        note(f"{shape} {weights}", partial(passes.decode_figures, options.models / shape / "target", weights))
    for shape in sizes.shapes:
        folder = options.models / shape / "target"
        note(f"{shape} prefill", partial(passes.prefill_figures, folder, record["matrix_rate"]))
        note(f"{shape} sequences", partial(passes.many_sequences_figures, folder))
    return int(any(isinstance(each, dict) and "error" in each for each in record.values()))


class _Passes:
    """Measures passes of the models on one device."""

    def __init__(self, device: str, sizes: Sizes) -> None:
        self.sizes = sizes
        self._device = device
        self._torch_device = "cpu" if device == CPU else "cuda"

    def matrix_rate(self) -> float:
        """Return the median operations per second of torch's bf16 product of square random matrices."""
        size = self.sizes.matrix
        left, right = (torch.randn(size, size, device=self._torch_device, dtype=torch.bfloat16) for _ in range(2))

        def multiply() -> None:
            torch.matmul(left, right)
            if self._device != CPU:
                torch.cuda.synchronize()

        return 2 * size**3 / self._median_seconds(multiply)

    def decode_figures(self, folder: Path, weights: str) -> dict[str, Any]:
        """Return the bandwidth fraction, and the time of passes over several rows in units of a pass over one row."""
        model = self._load(folder, weights, blocks=self.sizes.context // BLOCK_SIZE + 8)
        figures = measure_decoder(model, context=self.sizes.context, runs=self.sizes.runs)
        one = figures.medians[1]
        costs = {f"v({rows})": seconds / one for rows, seconds in figures.medians.items()}
        return {"bandwidth_fraction": figures.bandwidth_fraction, **costs, "all": asdict(figures)}

    def prefill_figures(self, folder: Path, matrix_rate: float) -> dict[str, float]:
        """Return the share of the matrix rate that a prefill's products reach; attention is not counted."""
        rows = self.sizes.prefill
        model = self._load(folder, "bf16", blocks=-(-rows // BLOCK_SIZE))
        batch = Batch(max_rows=rows, max_sequences=1, max_blocks=model.decoder.num_blocks)
        token_ids = [row % 97 for row in range(rows)]
        batch.append(token_ids, position=0, blocks=list(range(model.decoder.num_blocks)), num_logits=1)
        seconds = self._pass_seconds(model, batch)
        shape = model.checkpoint.config
        head = 2 * shape.vocab_size * shape.hidden_size // model.decoder.num_ranks  # only one row has logits
        num_bytes = model.decoder.weight_bytes - head  # of each device
        operations = num_bytes * rows  # two for each weight, which has two bytes
        return {"seconds": seconds, "tokens_per_second": rows / seconds, "share": operations / seconds / matrix_rate}

    def many_sequences_figures(self, folder: Path) -> dict[str, float]:
        """Time a pass over one row each of many sequences; `share` is how much of it reading weights and KV takes."""
        context, sequences = self.sizes.context, self.sizes.sequences
        blocks_each = context // BLOCK_SIZE + 1
        model = self._load(folder, "bf16", blocks=sequences * blocks_each)
        batch = Batch(max_rows=max(context, sequences), max_sequences=sequences, max_blocks=blocks_each)
        tables = [list(range(first, first + blocks_each)) for first in range(0, sequences * blocks_each, blocks_each)]
        batch.append([row % 97 for row in range(context)], position=0, blocks=tables[0], num_logits=1)
        model.decoder.forward(batch)
        for table in tables[1:]:
            for source, target in zip(tables[0], table, strict=True):
                model.decoder.copy_block(source, target)
        batch.clear()
        for sequence, table in enumerate(tables):
            batch.append([sequence], position=context, blocks=table, num_logits=1)
        seconds = self._pass_seconds(model, batch)
        num_bytes = model.decoder.weight_bytes + sequences * context * model.decoder.kv_bytes_per_token
        read_rate = measure_decoder(model, context=context, runs=min(3, self.sizes.runs)).read_rate.median
        return {"seconds": seconds, "bytes": num_bytes, "share": num_bytes / read_rate / seconds}

    def _median_seconds(self, action: Callable[[], object]) -> float:
        """Return the median seconds of `runs` runs, after a few that warm up."""
        for _ in range(3):
            action()
        times = []
        for _ in range(self.sizes.runs):
            began = time.perf_counter()
            action()
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    def _pass_seconds(self, model: LoadedModel, batch: Batch) -> float:
        def run() -> None:
            model.decoder.forward(batch)
            model.device.synchronize()

        return self._median_seconds(run)

    def _load(self, folder: Path, weights: str, *, blocks: int) -> LoadedModel:
        isa, threads = resolve_isa(), resolve_threads()
        return LoadedModel.load(
            EngineConfig(model=folder, device=self._device, isa=isa, threads=threads, weights=weights, kv_blocks=blocks)
        )


if __name__ == "__main__":
    sys.exit(main())
