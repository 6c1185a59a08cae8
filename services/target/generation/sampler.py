"""Sampler: the target's own token at every asked row, with what was asked to be told of it."""

from collections.abc import Sequence as Rows
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.engine.decoder.native import Logits, SamplingState
from services.engine.decoder.native import Sampler as NativeSampler
from services.engine.events import FinishReason, TokenRecord
from services.target.generation.sample_reader import SampleReader
from services.target.scheduling.scheduler import ScheduledRows


@dataclass(frozen=True, slots=True)
class Drawn:
    """What came of one sequence's rows: its next tokens, why there is no further one where a row has none, and the
    records of tokens of its prompt.
    """

    records: list[TokenRecord] = field(default_factory=list)
    failure: FinishReason | None = None
    told: list[TokenRecord] = field(default_factory=list)


class Sampler:
    """Draws at every asked row and keeps, per sequence, the longest run of tokens that its predictions foretold.

    A prediction is right if and only if it equals the token drawn in its place; the first token that was not
    foretold ends the run, since the rows behind it saw a history that did not come true.
    """

    def __init__(self, native: NativeSampler) -> None:
        self._native = native

    def sample(self, logits: Logits, scheduled: Rows[ScheduledRows]) -> list[Drawn]:
        """One result for each of `scheduled`, all of which ask for rows of logits, in their order."""
        states: list[SamplingState] = []
        tokens: list[list[int]] = []
        masks: list[NDArray[np.uint32] | None] = []
        for rows in scheduled:
            if rows.told and rows.sequence.prompt_records is not None:
                states.append(rows.sequence.prompt_records.sampling)
                tokens.append(rows.told)
                masks.append(None)
            if rows.draws:
                states.append(rows.sequence.sampling)
                tokens.append(rows.predictions)
                masks.append(_masks(rows))  # while a device that does not wait is still computing
        reader = SampleReader(self._native.sample(logits, states, tokens, masks), logits)
        results: list[Drawn] = []
        first_row = 0
        for rows in scheduled:
            results.append(_drawn(reader, first_row, rows))
            first_row += rows.num_asked
        return results


def _masks(rows: ScheduledRows) -> NDArray[np.uint32] | None:
    sequence = rows.sequence
    return None if sequence.is_healing else sequence.choices.masks(rows.predictions)


def _drawn(reader: SampleReader, first_row: int, rows: ScheduledRows) -> Drawn:
    told = _told(reader, first_row, rows)
    first_row += len(rows.told)
    records: list[TokenRecord] = []
    for offset in range(rows.num_draws):
        row = first_row + offset
        if failure := reader.failure(row):
            is_sure = not records or rows.sequence.choices.grammar is None  # behind predictions a mask may be missing
            return Drawn(records, failure if is_sure else None, told)
        token_id = reader.token_id(row)
        predicted = offset < len(rows.predictions) and rows.predictions[offset] == token_id
        records.append(reader.record(row, rows.sequence.output, rows.source if predicted else None))
        if not predicted:
            break
    return Drawn(records, None, told)


def _told(reader: SampleReader, first_row: int, rows: ScheduledRows) -> list[TokenRecord]:
    """The records of a prompt's tokens; where the logits are no numbers, there is nothing to tell."""
    prompt = rows.sequence.prompt_records
    if prompt is None:
        return []
    return [
        TokenRecord(token_id) if reader.failure(row) else reader.record(row, prompt.output)
        for row, token_id in enumerate(rows.told, start=first_row)
    ]
