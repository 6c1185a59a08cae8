"""HeldPass: a pass of a target that does not begin before it may, for tests of what happens meanwhile."""

import threading
from collections.abc import Callable
from collections.abc import Sequence as Seq

from services.engine.decoder.native import Pass
from services.target.scheduling.scheduled_rows import ScheduledRows
from tests.harness.servers.server import RunningTarget


class HeldPass:
    """The next pass over one sequence that meets a condition."""

    def __init__(self, target: RunningTarget, condition: Callable[[ScheduledRows], bool]) -> None:
        self.is_held, self.may_go_on = threading.Event(), threading.Event()
        self.num_committed = 0  # tokens, when the pass was to begin
        self._condition = condition
        self._runner = target.engine._step._runner
        self._forward = self._runner.forward
        self._runner.forward = self._hold  # type: ignore[method-assign]

    def _hold(self, scheduled: Seq[ScheduledRows]) -> Pass:
        (rows,) = scheduled
        if self._condition(rows):
            self._runner.forward = self._forward  # type: ignore[method-assign]
            self.num_committed = len(rows.sequence.tokens)
            self.is_held.set()
            self.may_go_on.wait()
        return self._forward(scheduled)


def behind(num_tokens: int) -> Callable[[ScheduledRows], bool]:
    """Whether a sequence has as many tokens of its own."""
    return lambda rows: rows.sequence.num_generated >= num_tokens
