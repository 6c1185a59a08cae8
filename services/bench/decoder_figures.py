"""DecoderFigures: the speed of passes over one sequence, beside the rates at which this machine reads and computes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from services.bench.machine_rates import MachineRates, timed
from services.bench.roofline import Roofline, Work
from services.bench.spread import Spread
from services.engine.config import ConfigError
from services.engine.decoder.native import Batch
from services.engine.loaded_model import LoadedModel

ROWS = (1, 2, 4, 6, 8, 9, 12, 16, 24, 32, 48, 64)
_PREFILLS = 5
_PREFILLED = 512  # rows at most: longer prompts come in chunks


@dataclass(frozen=True, slots=True)
class DecoderFigures:
    """Timings taken in turn; rates are per second, sizes in bytes."""

    context: int  # tokens before the rows
    step_bytes: int  # weights, keys and values that a pass over one row must read
    read_rate: Spread  # of a buffer of `step_bytes`, read in the fastest of several ways
    product_rate: Spread | None  # operations of the weights' matrix kernel, on registers only; None: not known
    attention_rate: Spread | None  # operations of the attention kernel, likewise
    prefill_rate: Spread  # tokens of the context, or of its last chunk if it is long
    pass_seconds: Mapping[int, Spread]  # by the number of rows; logits are computed for every row
    bandwidth_fraction: float  # share of `read_rate` in a plain decode step; above 1, a measurement is wrong
    roofline_fractions: Mapping[int, float]  # the least possible time of the pass / its time, by the number of rows
    prefill_fraction: float  # the least possible time of the prefill / its time

    @property
    def medians(self) -> dict[int, float]:
        """Median seconds of a pass, by its number of rows."""
        return {rows: seconds.median for rows, seconds in self.pass_seconds.items()}


def measure_decoder(model: LoadedModel, *, context: int, runs: int) -> DecoderFigures:
    """Time passes over one sequence after `context` tokens; raises ConfigError if they do not fit."""
    if not 1 <= context <= model.context_length - ROWS[-1]:
        raise ConfigError(f"context is {context}; it must be in 1 ... {model.context_length - ROWS[-1]}")
    passes = _Passes(model, context)
    rates = MachineRates(model.device, weights=model.weights, num_bytes=passes.work(1).bytes)
    times = _times_in_turn([*rates.measures, *(partial(passes.verify, rows) for rows in ROWS)], runs)
    machine = times[: len(rates.measures)]
    seconds = dict(zip(ROWS, map(Spread.of, times[len(machine) :]), strict=True))
    prefill_rate = Spread.of([passes.prefilled / passes.prefill() for _ in range(_PREFILLS)])
    read, product, attention = rates.read_rate(machine), rates.product_rate(machine), rates.attention_rate(machine)
    roofline = Roofline(read.median, *(rate.median if rate else None for rate in (product, attention)))
    return DecoderFigures(
        context=context,
        step_bytes=passes.work(1).bytes,
        read_rate=read,
        product_rate=product,
        attention_rate=attention,
        prefill_rate=prefill_rate,
        pass_seconds=seconds,
        bandwidth_fraction=passes.work(1).bytes / seconds[1].median / read.median,
        roofline_fractions={rows: roofline.seconds(passes.work(rows)) / each.median for rows, each in seconds.items()},
        prefill_fraction=roofline.seconds(passes.prefill_work) * prefill_rate.median / passes.prefilled,
    )


class _Passes:
    """Passes over one sequence. What the KV cache and its state hold does not affect their time."""

    def __init__(self, model: LoadedModel, context: int) -> None:
        self.prefilled = min(context, _PREFILLED)
        self._model = model
        self._context = context
        self._blocks = list(range(model.blocks.blocks_for(context + ROWS[-1])))
        model.decoder.commit_cache(0, len(self._blocks))
        self._batch = Batch(max_rows=max(self.prefilled, ROWS[-1]), max_sequences=1, max_blocks=len(self._blocks))
        self.prefill()

    def prefill(self) -> float:
        """Seconds to compute the context's last rows."""
        return self._time(position=self._context - self.prefilled, rows=self.prefilled, num_logits=1)

    def verify(self, rows: int) -> float:
        """Seconds to compute rows after the context, with the logits of each row."""
        return self._time(position=self._context, rows=rows, num_logits=rows)

    def work(self, rows: int) -> Work:
        """The bytes and operations of `verify`."""
        return self._work(position=self._context, rows=rows, num_logits=rows)

    @property
    def prefill_work(self) -> Work:
        """The bytes and operations of `prefill`."""
        return self._work(position=self._context - self.prefilled, rows=self.prefilled, num_logits=1)

    def _work(self, **rows: int) -> Work:
        return Work.of(self._model.decoder, self._model.checkpoint.config, **rows)

    def _time(self, *, position: int, rows: int, num_logits: int) -> float:
        self._batch.clear()
        token_ids = [(position + row) % 97 for row in range(rows)]
        slot = 0 if self._model.checkpoint.config.has_states else None
        self._batch.append(
            token_ids,
            position=position,
            blocks=self._blocks,
            num_logits=num_logits,
            slot=slot,
            state_position=position,
        )
        return timed(self._model.device, lambda: self._model.decoder.forward(self._batch))


def _times_in_turn(measures: list[Callable[[], float]], runs: int) -> list[tuple[float, ...]]:
    rounds = [[measure() for measure in measures] for _ in range(runs)]
    return list(zip(*rounds, strict=True))
