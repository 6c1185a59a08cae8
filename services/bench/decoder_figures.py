"""DecoderFigures: the speed of passes over one sequence, beside the speed at which this machine reads memory."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from services.bench.spread import Spread
from services.engine.config import ConfigError
from services.engine.decoder.native import Batch, Device, ReadProbe
from services.engine.loaded_model import LoadedModel

ROWS = (1, 2, 4, 6, 8, 9, 12, 16, 24, 32)
_PREFILLS = 5


@dataclass(frozen=True, slots=True)
class DecoderFigures:
    """Timings taken in turn; rates are per second, sizes in bytes."""

    context: int  # tokens before the rows
    step_bytes: int  # weights, keys and values that a pass over one row must read
    read_rate: Spread  # the best of several ways to read a buffer as large
    prefill_rate: Spread  # tokens of the context
    pass_seconds: Mapping[int, Spread]  # by the number of rows, each with its logits
    bandwidth_fraction: float  # of the memory's speed, in a plain decode step; above 1 something was measured wrongly

    @property
    def medians(self) -> dict[int, float]:
        """Seconds of a pass by its number of rows."""
        return {rows: seconds.median for rows, seconds in self.pass_seconds.items()}


def measure_decoder(model: LoadedModel, *, context: int, runs: int) -> DecoderFigures:
    """Time passes over one sequence with `context` tokens in its cache; raises ConfigError where they do not fit."""
    if not 1 <= context <= model.context_length - ROWS[-1]:
        raise ConfigError(f"context is {context}; it must be in 1 ... {model.context_length - ROWS[-1]}")
    passes = _Passes(model, context)
    step_bytes = model.decoder.weight_bytes + context * model.decoder.kv_bytes_per_token
    probe = ReadProbe(model.device, step_bytes)
    reads: list[Callable[[], float]] = [
        partial(_timed, model.device, partial(probe.read, stripes)) for stripes in (True, False)
    ]
    times = _times_in_turn([*reads, *(partial(passes.verify, rows) for rows in ROWS)], runs)
    seconds = dict(zip(ROWS, map(Spread.of, times[len(reads) :]), strict=True))
    rates = [Spread.of([probe.bytes / each for each in some]) for some in times[: len(reads)]]
    read_rate = max(rates, key=lambda rate: rate.median)
    return DecoderFigures(
        context=context,
        step_bytes=step_bytes,
        read_rate=read_rate,
        prefill_rate=Spread.of([context / passes.prefill() for _ in range(_PREFILLS)]),
        pass_seconds=seconds,
        bandwidth_fraction=step_bytes / seconds[1].median / read_rate.median,
    )


class _Passes:
    """Passes over one sequence, whose first tokens are in the cache."""

    def __init__(self, model: LoadedModel, context: int) -> None:
        self._device = model.device
        self._decoder = model.decoder
        self._context = context
        self._blocks = list(range(model.blocks.blocks_for(context + ROWS[-1])))
        self._batch = Batch(max_rows=max(context, ROWS[-1]), max_sequences=1, max_blocks=len(self._blocks))
        self.prefill()

    def prefill(self) -> float:
        """Seconds to compute the context."""
        return self._time(position=0, rows=self._context, asked=1)

    def verify(self, rows: int) -> float:
        """Seconds to compute rows behind the context, with the logits of each."""
        return self._time(position=self._context, rows=rows, asked=rows)

    def _time(self, *, position: int, rows: int, asked: int) -> float:
        self._batch.clear()
        token_ids = [(position + row) % 97 for row in range(rows)]
        self._batch.append(token_ids, position=position, blocks=self._blocks, num_logits=asked)
        return _timed(self._device, lambda: self._decoder.forward(self._batch))


def _timed(device: Device, action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    device.synchronize()
    return time.perf_counter() - start


def _times_in_turn(measures: list[Callable[[], float]], runs: int) -> list[tuple[float, ...]]:
    rounds = [[measure() for measure in measures] for _ in range(runs)]
    return list(zip(*rounds, strict=True))
