"""Sampler: the target's own token at every asked row, with what was asked to be told of it."""

from collections.abc import Sequence as Rows
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.engine.events import Candidate, FinishReason, PredictionSource, TokenRecord
from services.engine.native import Device, Logits, Samples
from services.engine.native import Sampler as NativeSampler
from services.engine.scheduler import ScheduledRows

_FAILURES = {1: FinishReason.NO_CANDIDATES, 2: FinishReason.INVALID_LOGITS}


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was drawn for one sequence: its next tokens, and why there is no further one where a row has none."""

    records: list[TokenRecord]
    failure: FinishReason | None


class Sampler:
    """Draws at every asked row and keeps, per sequence, the longest run of tokens that its predictions foretold.

    A prediction is right if and only if it equals the token drawn in its place; the first token that was not
    foretold ends the run, since the rows behind it saw a history that did not come true.
    """

    def __init__(self, device: Device) -> None:
        self._native = NativeSampler(device)

    def sample(self, logits: Logits, scheduled: Rows[ScheduledRows]) -> list[Drawn]:
        """One result for each of `scheduled`, all of which draw, in their order."""
        samples = self._native.sample(
            logits,
            [rows.sequence.sampling for rows in scheduled],
            [rows.predictions for rows in scheduled],
            [_masks(rows) for rows in scheduled],  # made while a device that does not wait is still computing
        )
        results: list[Drawn] = []
        first_row = 0
        for rows in scheduled:
            results.append(_longest_run(samples, first_row, rows))
            first_row += rows.num_draws
        return results


def _masks(rows: ScheduledRows) -> NDArray[np.uint32] | None:
    grammar = rows.sequence.grammar
    return None if grammar is None else grammar.masks(rows.predictions)


def _longest_run(samples: Samples, first_row: int, rows: ScheduledRows) -> Drawn:
    records: list[TokenRecord] = []
    for offset in range(rows.num_draws):
        row = first_row + offset
        if failure := _FAILURES.get(int(samples.status[row])):
            is_sure = not records or rows.sequence.grammar is None  # behind predictions a mask may be missing
            return Drawn(records, failure if is_sure else None)
        token_id = int(samples.token_ids[row])
        predicted = offset < len(rows.predictions) and rows.predictions[offset] == token_id
        records.append(_record(samples, row, token_id, rows, rows.source if predicted else None))
        if not predicted:
            break
    return Drawn(records, None)


def _record(
    samples: Samples, row: int, token_id: int, rows: ScheduledRows, source: PredictionSource | None
) -> TokenRecord:
    output = rows.sequence.request.output
    if not output.logprobs and not output.num_candidates:
        return TokenRecord(token_id, source=source)
    return TokenRecord(
        token_id,
        raw_logprob=float(samples.raw_logprobs[row]),
        logprob=float(samples.logprobs[row]),
        candidates=tuple(Candidate(*candidate) for candidate in samples.candidates(row)),
        source=source,
    )
