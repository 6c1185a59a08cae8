"""Speculation: which predictions are verified beside each sequence's own row, and how they fared."""

import time
from collections.abc import Iterable
from collections.abc import Sequence as Records

from services.engine.events import NoSpeculation, TokenRecord
from services.engine.predictor import Predictor
from services.engine.request import SpeculationMode
from services.engine.scheduler import ScheduledRows, Scheduler
from services.engine.sequence import Sequence
from services.target.controller import Controller


class Speculation:
    """Puts predictions behind decoding rows and keeps the count of those that came true."""

    def __init__(self, predictor: Predictor | None, *, vocab_size: int) -> None:
        self._predictor = predictor
        self._vocab_size = vocab_size
        self._controller = Controller()
        self._num_arrivals = 0  # of the draft, that the controller knows of
        self._step_began = 0.0

    def open(self, sequence: Sequence) -> None:
        """Begin to follow a new sequence; one whose prompt is to be healed, once it is."""
        if not _is_allowed(sequence):
            _explain(sequence, NoSpeculation.FORBIDDEN, "the request forbids it")
        elif self._predictor is None:
            _explain(sequence, NoSpeculation.NO_PREDICTOR, "no draft is configured")
        elif not sequence.is_healing:
            self._predictor.commit(sequence)

    def extend(self, batch: Iterable[ScheduledRows], scheduler: Scheduler, *, max_rows: int) -> None:
        """Add predictions to the decoding rows, within what is left of the pass's row budget."""
        self._step_began = time.monotonic()
        if self._predictor is None:
            return
        if self._predictor.num_arrivals != self._num_arrivals:
            self._num_arrivals = self._predictor.num_arrivals
            self._controller.look_again()
        spare_rows = max_rows - sum(rows.num_rows for rows in batch)
        for rows in batch:
            if rows.is_decode and _is_followed(rows.sequence):
                limit = max(0, min(self._controller.limit(rows.sequence), spare_rows))
                scheduler.add_predictions(rows, self._predict(self._predictor, rows.sequence, limit))
                spare_rows -= len(rows.predictions)

    def settle(self, rows: ScheduledRows, committed: Records[TokenRecord]) -> None:
        """Count a sequence's pass, and tell the predictor what was committed."""
        sequence = rows.sequence
        if committed:
            num_accepted = sum(record.predicted for record in committed)
            sequence.speculation.count(len(rows.predictions), num_accepted)
        if self._predictor is not None and _is_followed(sequence):
            self._predictor.commit(sequence)

    def observe(self, batch: Iterable[ScheduledRows], num_committed: int) -> None:
        """A step has ended: let the controller learn from it, if it was of its making."""
        is_there = self._predictor is not None and not self._predictor.absence
        if is_there and all(rows.is_decode and _is_automatic(rows.sequence) for rows in batch):
            self._controller.observe(time.monotonic() - self._step_began, num_committed)

    def close(self, sequence: Sequence) -> None:
        """Forget a sequence that has ended or was dropped."""
        if self._predictor is not None and _is_followed(sequence):
            self._predictor.close(sequence)

    def _predict(self, predictor: Predictor, sequence: Sequence, limit: int) -> list[int]:
        predictions = self._valid(predictor.predict(sequence, limit))[:limit]
        if not predictions and _is_automatic(sequence) and not self._controller.speculates:
            _explain(sequence, NoSpeculation.SLOWER, self._controller.detail)
        elif not predictions and limit:
            detail = predictor.absence or sequence.speculation.dropped or "no prediction came in time"
            _explain(sequence, NoSpeculation.UNAVAILABLE, detail)
        return predictions

    def _valid(self, predictions: Iterable[int]) -> list[int]:
        """The predictions up to the first that is no token id."""
        valid: list[int] = []
        for token_id in predictions:
            if not 0 <= token_id < self._vocab_size:
                break
            valid.append(token_id)
        return valid


def _is_allowed(sequence: Sequence) -> bool:
    return sequence.request.speculation.mode is not SpeculationMode.NEVER


def _is_followed(sequence: Sequence) -> bool:
    return _is_allowed(sequence) and not sequence.is_healing


def _is_automatic(sequence: Sequence) -> bool:
    return sequence.request.speculation.mode is SpeculationMode.AUTO


def _explain(sequence: Sequence, why_not: NoSpeculation, detail: str) -> None:
    sequence.speculation.why_not, sequence.speculation.detail = why_not, detail
