"""outrider bench: how fast the decoder is on this machine, and what verifying several rows costs."""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from services.cli.service_pair import ModelPair, demo_models
from services.cli.terminal import Terminal
from services.engine.batch_writer import BatchWriter
from services.engine.checkpoint_error import CheckpointError
from services.engine.config import WEIGHT_FORMATS, ConfigError, EngineConfig, resolve_isa, resolve_threads
from services.engine.loaded_model import LoadedModel

_ROWS = (1, 2, 4, 8, 16, 32)
_CONTEXT = 128  # tokens before the rows that are timed


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options."""
    parser.add_argument("--model", type=Path, metavar="DIR", help="a model folder (default: the demo model)")
    parser.add_argument("--threads", type=int, metavar="N", help="compute threads (default: one per core)")
    parser.add_argument("--weights", choices=WEIGHT_FORMATS, default="bf16", help="how weights are held (%(default)s)")
    parser.add_argument("--runs", type=int, default=100, metavar="N", help="timings of each figure (%(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Print the figures; returns the exit code."""
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    models = ModelPair(arguments.model, None) if arguments.model else demo_models()
    if models is None:
        err.error("outrider bench: there is no demo model here; name a model folder with --model")
        return 1
    threads = resolve_threads(arguments.threads)
    try:
        config = EngineConfig(model=models.target, isa=resolve_isa(), threads=threads, weights=arguments.weights)
        model = LoadedModel.load(config)
    except (CheckpointError, ConfigError) as error:
        err.error(f"outrider bench: {error}")
        return 1
    mebibytes = model.decoder.weight_bytes / (1 << 20)
    out.note(f"{config.isa}, {config.threads} threads, {config.weights}: {mebibytes:.1f} MiB of weights per pass")
    _print_passes(_Passes(model), arguments.runs, out)
    return 0


def _print_passes(passes: "_Passes", runs: int, out: Terminal) -> None:
    """Times of a pass over m rows of one sequence, taken in turns, as medians."""
    times = _times_in_turn([partial(passes.verify, rows) for rows in _ROWS], runs)
    one = times[0]
    out.text(f"plain decode   {1 / one:9.1f} tokens/s  ({one * 1000:.2f} ms a pass)\n")
    out.text(f"prefill        {_CONTEXT / statistics.median(passes.prefill() for _ in range(5)):9.1f} tokens/s\n")
    for rows, seconds in zip(_ROWS[1:], times[1:], strict=True):
        out.text(f"v({rows})".ljust(15) + f"{seconds / one:9.2f}  ({seconds * 1000:.2f} ms)\n")


class _Passes:
    """Passes over one sequence, whose first _CONTEXT tokens are in the cache."""

    def __init__(self, model: LoadedModel) -> None:
        self._decoder = model.decoder
        self._blocks = list(range(model.blocks.blocks_for(_CONTEXT + _ROWS[-1])))
        self._writer = BatchWriter(max_rows=_CONTEXT, max_sequences=1, max_blocks=len(self._blocks))
        self.prefill()

    def prefill(self) -> float:
        """Seconds to compute the context."""
        return self._time(position=0, rows=_CONTEXT, asked=1)

    def verify(self, rows: int) -> float:
        """Seconds to compute rows behind the context, with the logits of each."""
        return self._time(position=_CONTEXT, rows=rows, asked=rows)

    def _time(self, *, position: int, rows: int, asked: int) -> float:
        self._writer.clear()
        token_ids = [(position + row) % 97 for row in range(rows)]
        self._writer.append(token_ids, position=position, blocks=self._blocks, num_asked=asked)
        start = time.perf_counter()
        self._decoder.forward(self._writer.batch)
        return time.perf_counter() - start


def _times_in_turn(measures: list[Callable[[], float]], runs: int) -> list[float]:
    rounds = [[measure() for measure in measures] for _ in range(runs)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]
