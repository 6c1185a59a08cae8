"""Speculation: which predictions are verified beside each sequence's own row, and how they fared."""

from collections.abc import Iterable

from services.engine.events import TokenRecord
from services.engine.predictor import Predictor
from services.engine.request import SpeculationMode
from services.engine.scheduler import ScheduledRows, Scheduler
from services.engine.sequence import Sequence


class Speculation:
    """Puts predictions behind decoding rows and keeps the count of those that came true."""

    def __init__(self, predictor: Predictor | None, *, vocab_size: int) -> None:
        self._predictor = predictor
        self._vocab_size = vocab_size

    def open(self, sequence: Sequence) -> None:
        """Begin to follow a new sequence."""
        if sequence.request.speculation.mode is SpeculationMode.NEVER:
            sequence.speculation.why_not = "the request forbids it"
        elif self._predictor is None:
            sequence.speculation.why_not = "no draft is configured"
        else:
            self._predictor.commit(sequence)

    def extend(self, batch: Iterable[ScheduledRows], scheduler: Scheduler, *, max_rows: int) -> None:
        """Add predictions to the decoding rows, within what is left of the pass's row budget."""
        if self._predictor is None:
            return
        spare_rows = max_rows - sum(rows.num_rows for rows in batch)
        for rows in batch:
            if not rows.is_decode or not self._follows(rows.sequence):
                continue
            limit = min(self._limit(rows.sequence), spare_rows)
            if limit > 0:
                scheduler.add_predictions(rows, self._valid(self._predictor.predict(rows.sequence, limit))[:limit])
                spare_rows -= len(rows.predictions)

    def settle(self, rows: ScheduledRows, committed: Iterable[TokenRecord]) -> None:
        """Count a sequence's pass, and tell the predictor what was committed."""
        sequence = rows.sequence
        if rows.is_decode:
            num_accepted = sum(record.predicted for record in committed)
            sequence.speculation.count(len(rows.predictions), num_accepted)
        if self._predictor is not None and self._follows(sequence):
            self._predictor.commit(sequence)

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence that has ended or was dropped."""
        if self._predictor is not None and self._follows(sequence):
            self._predictor.close(sequence)

    def _follows(self, sequence: Sequence) -> bool:
        return sequence.request.speculation.mode is not SpeculationMode.NEVER

    def _limit(self, sequence: Sequence) -> int:
        """Predictions that can still become tokens: one place of what remains is the target's own."""
        return min(sequence.request.speculation.num_predictions, sequence.num_remaining - 1)

    def _valid(self, predictions: Iterable[int]) -> list[int]:
        """The predictions up to the first that is no token id."""
        valid: list[int] = []
        for token_id in predictions:
            if not 0 <= token_id < self._vocab_size:
                break
            valid.append(token_id)
        return valid
