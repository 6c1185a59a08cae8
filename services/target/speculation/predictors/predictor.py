"""Predictor: what a source of predictions of the target's next tokens offers."""

from collections.abc import Sequence as Seq
from typing import Protocol

from services.engine.events import PredictionSource
from services.target.sequence.sequence import Sequence

MOST_PREDICTIONS = 15  # with the row that they follow, as many as one reading of the weights serves


class Predictor(Protocol):
    """Predicts a sequence's next tokens. It reads sequences and never changes one; wrong predictions cost speed only.

    All methods are called by the engine thread; `predict` may wait for predictions that are under way, the others
    return at once.
    """

    source: PredictionSource
    """As what its predictions are counted."""

    num_predictions: int
    """How many to verify in a pass where the request insists on some and leaves the number open."""

    @property
    def num_arrivals(self) -> int:
        """How often what it predicts with has come, or come back: what was measured of it before that is void."""

    @property
    def is_busy(self) -> bool:
        """Whether it is at work on the target's own cores for what was asked, and goes on when nobody waits."""

    @property
    def runs_ahead(self) -> bool:
        """Whether what was asked last is at work elsewhere while the target computes: what is not there now will be a
        pass later.
        """

    def serves(self, sequence: Sequence) -> bool:
        """Whether the sequence is its concern: each is that of one draft only. All but `commit`, `ask` and `close` are
        called for such sequences only.
        """

    def why_none(self, sequence: Sequence) -> str:
        """Why it has no prediction for a sequence at present; empty where it may have some."""

    def wait_for(self, sequence: Sequence, count: float) -> float:
        """How many seconds `predict` may be expected to wait for so many on average, if they are all that is asked."""

    def slowdown(self, num_sequences: int) -> float:
        """How many times as long it takes where so many sequences are predicted for at once; 1 for one of them."""

    def catch_up(self, sequence: Sequence) -> float | None:
        """How many seconds of the target's own time go before its first prediction, for what it has to read first; None
        where it would have to read and nobody knows how fast it does.
        """

    def ask(self, sequence: Sequence, limit: int, least_chance: float = 0.0) -> None:
        """So many predictions are wanted next, none for now if it is 0: whoever makes them elsewhere may begin. It may
        end with the one by which the chance that all are right falls below the least.
        """

    def has_ended(self, sequence: Sequence) -> bool:
        """Whether it has done so, in what `predict` gave."""

    def predict(self, sequence: Sequence, limit: int, *, until: float) -> Seq[int]:
        """At most `limit` ids that may follow `sequence.tokens`, of those that were asked for; it waits no longer than
        to that moment of the monotonic clock.
        """

    def commit(self, sequence: Sequence) -> None:
        """The sequence is new, or a pass over it has ended, in which its tokens may have grown or been cut back.

        Called after every pass, so that tokens which were replaced show as a cut first.
        """

    def close(self, sequence: Sequence) -> None:
        """The sequence has ended or was dropped."""
