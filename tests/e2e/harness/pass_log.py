"""PassLog: what every decoding pass of a target verified, read from the engine itself."""

from collections.abc import Iterable
from dataclasses import dataclass

from services.engine.events import TokenRecord
from services.engine.request import Request
from services.target.generation.engine import TargetEngine
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.speculation.rehearsal import REHEARSAL_ID


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of one sequence; `index` is that of the first token that it drew."""

    index: int
    num_tokens: int  # that it gave, up to an end among them
    num_predicted: int
    num_accepted: int

    @property
    def num_judged(self) -> int:
        """Predictions with a verdict: the right ones and the first wrong one; none after the end."""
        return min(self.num_predicted, self.num_tokens)


class PassLog:
    """Logs the passes of one stream after another, but for rehearsals."""

    def __init__(self, engine: TargetEngine) -> None:
        self._request: Request | None = None
        self._passes: list[Pass] = []
        speculation = engine._step._speculation
        settle = speculation.settle

        def watched_settle(rows: ScheduledRows, committed: Iterable[TokenRecord]) -> None:
            records = [*committed]
            settle(rows, records)
            if rows.is_decode and rows.sequence.request.request_id != REHEARSAL_ID:
                self._add(rows, records)

        speculation.settle = watched_settle  # type: ignore[method-assign]

    def take(self) -> tuple[Request, list[Pass]]:
        """The request that has run since the last call, and its passes."""
        assert self._request is not None
        request, passes = self._request, self._passes
        self._request, self._passes = None, []
        return request, passes

    def _add(self, rows: ScheduledRows, records: list[TokenRecord]) -> None:
        self._request = rows.sequence.request
        index = rows.sequence.num_generated - len(records)
        num_accepted = sum(record.predicted for record in records)
        self._passes.append(Pass(index, len(records), len(rows.predictions), num_accepted))
