"""Sampler: draws the target's own token at every row of logits, with the requested record of it."""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.engine.decoder.native import Logits, Samples, SamplingState
from services.engine.decoder.native import Sampler as NativeSampler
from services.engine.events import Candidate, FinishReason, PredictionSource, TokenRecord
from services.engine.request import OutputOptions
from services.target.scheduling.scheduled_rows import ScheduledRows

_FAILURES = {1: FinishReason.NO_CANDIDATES, 2: FinishReason.INVALID_LOGITS}


def _nothing(_: Seq[int]) -> None:
    pass


@dataclass(slots=True)
class SamplerOutput:
    """One sequence's next tokens, the reason if a row has no token, and the records of prompt tokens."""

    records: list[TokenRecord] = field(default_factory=list)
    failure: FinishReason | None = None
    prompt_records: list[TokenRecord] = field(default_factory=list)


class Sampler:
    """Draws at every row of logits and keeps, per sequence, the tokens up to the first one that was not predicted.

    A prediction is accepted if and only if it equals the token drawn at its position. A rejection ends the run, since
    the rows after it were computed with the wrong history.
    """

    def __init__(self, native: NativeSampler) -> None:
        self._native = native

    def sample(
        self, logits: Logits, scheduled: Seq[ScheduledRows], on_drawn: Callable[[Seq[int]], None] = _nothing
    ) -> list[SamplerOutput]:
        """One result for each of `scheduled`; `logits` has their rows in the same order.

        `on_drawn` gets the token ids of all rows, below 0 if none could be drawn, as soon as the logits may be
        overwritten. Void rows are drawn from, too, since all rows of the logits must be; they have no results.
        """
        states: list[SamplingState] = []
        tokens: list[list[int]] = []
        masks: list[NDArray[np.uint32] | None] = []
        for rows in scheduled:
            sequence = rows.sequence
            if rows.prompt_targets:
                tokens.append(rows.prompt_targets)
                states.append(sequence.prompt_results.sampling)
                masks.append(sequence.prompt_results.masks(rows.prompt_targets))
            if rows.draws:
                states.append(sequence.draw.sampling)
                tokens.append(rows.predictions)
                # Masks are made here, since a GPU may still be computing meanwhile.
                is_free = rows.is_void or sequence.is_healing
                masks.append(None if is_free else sequence.draw.allowed.masks(rows.predictions))
        reader = _SampleReader(self._native.sample(logits, states, tokens, masks), logits)
        reads_logits = any(rows.sequence.request.output.logits for rows in scheduled)
        if not reads_logits:
            on_drawn(reader.token_ids)
        results, first_row = [], 0
        for rows in scheduled:
            if not rows.is_void:
                results.append(_output(reader, first_row, rows))
            first_row += rows.num_logits
        if reads_logits:
            on_drawn(reader.token_ids)
        return results


class _SampleReader:
    """Reads single rows of samples, and of the logits that they were drawn from."""

    def __init__(self, samples: Samples, logits: Logits) -> None:
        self._samples = samples
        self._logits = logits
        self._status: list[int] = samples.status.tolist()
        self.token_ids: list[int] = samples.token_ids.tolist()

    def failure(self, row: int) -> FinishReason | None:
        """The reason why a row has no token; None if it has one."""
        return _FAILURES.get(self._status[row])

    def token_id(self, row: int) -> int:
        """The token of a row that has one."""
        return self.token_ids[row]

    def record(
        self, row: int, output: OutputOptions, source: PredictionSource | None = None, *, feeds_back: bool = False
    ) -> TokenRecord:
        """The record of a row's token, with the requested fields."""
        samples = self._samples
        logprobs = output.logprobs
        return TokenRecord(
            self.token_id(row),
            raw_logprob=float(samples.raw_logprobs[row]) if logprobs else None,
            logprob=float(samples.logprobs[row]) if logprobs else None,
            candidates=self._candidates(row) if output.num_candidates else (),
            source=source,
            rank=int(samples.ranks[row]) if output.rank else None,
            entropy=float(samples.entropies[row]) if output.entropy else None,
            logits=self._logits_of(row, output.logits_token_ids) if output.logits else None,
            level=float(samples.levels[row]) if feeds_back else None,
        )

    def _candidates(self, row: int) -> tuple[Candidate, ...]:
        return tuple(Candidate(*candidate) for candidate in self._samples.candidates(row))

    def _logits_of(self, row: int, token_ids: tuple[int, ...]) -> bytes:
        values = self._logits.row(row)
        if token_ids:
            values = values[list(token_ids)]
        return values.astype(np.dtype("<f4"), copy=False).tobytes()


def _output(reader: _SampleReader, first_row: int, rows: ScheduledRows) -> SamplerOutput:
    records: list[TokenRecord] = []
    prompt_records = _prompt_records(reader, first_row, rows) if rows.prompt_targets else []
    first_row += len(prompt_records)
    sequence, draw = rows.sequence, rows.sequence.draw
    feeds_back = draw.sampling.feeds_back
    for offset in range(rows.num_draws):
        row = first_row + offset
        if failure := reader.failure(row):
            is_sure = not records or sequence.request.grammar is None  # after predictions a mask may be missing
            return SamplerOutput(records, failure if is_sure else None, prompt_records)
        token_id = reader.token_id(row)
        predicted = offset < len(rows.predictions) and rows.predictions[offset] == token_id
        source = rows.source if predicted else None
        records.append(reader.record(row, draw.output, source, feeds_back=feeds_back))
        if not predicted:
            break
    return SamplerOutput(records, None, prompt_records)


def _prompt_records(reader: _SampleReader, first_row: int, rows: ScheduledRows) -> list[TokenRecord]:
    """The records of known tokens, which have only the id where the logits are not finite."""
    work = rows.sequence.prompt_results
    return [
        TokenRecord(token_id)
        if reader.failure(row)
        else reader.record(row, work.output, feeds_back=work.sampling.feeds_back)
        for row, token_id in enumerate(rows.prompt_targets, start=first_row)
    ]
