"""Predictor: what a source of predictions of the target's next tokens offers."""

from collections.abc import Sequence as Tokens
from typing import Protocol

from services.engine.sequence import Sequence


class Predictor(Protocol):
    """Predicts a sequence's next tokens. It reads sequences and never changes one; wrong predictions cost speed only.

    All methods are called by the engine thread; `predict` may wait for predictions that are under way, the others
    return at once.
    """

    absence: str
    """Why it predicts nothing at present; empty where it does."""

    num_arrivals: int
    """How often what it predicts with has come, or come back: what was measured of it before that is void."""

    def predict(self, sequence: Sequence, limit: int) -> Tokens[int]:
        """At most `limit` ids that may follow `sequence.tokens`; a limit of 0 says that none are wanted for now."""

    def commit(self, sequence: Sequence) -> None:
        """The sequence's tokens have grown, or it is new."""

    def close(self, sequence: Sequence) -> None:
        """The sequence has ended or was dropped."""
