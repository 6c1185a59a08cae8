"""EchoWriter: writes completions that are their prompts alone (`max_tokens` is 0)."""

from collections.abc import Sequence as Seq
from dataclasses import replace

from outrider import FinishReason, Result
from services.gateway.generation.piece import Piece
from services.gateway.generation.writer import Event, Json
from services.gateway.openai.completions.writer import CompletionWriter


class EchoWriter(CompletionWriter):
    """Leaves out the token after each prompt, because the RPC always generates at least one."""

    def piece(self, piece: Piece) -> Seq[Event]:
        """Return the events of a piece of a prompt."""
        return super().piece(_without_answer(piece))

    def end(self, choice: int, result: Result) -> Seq[Event]:
        """Return the event of the end of a choice."""
        return super().end(choice, _ended(result))

    def tail(self, results: Seq[Result]) -> Seq[Event]:
        """Return the event of the usage, if it was requested."""
        return super().tail([_ended(result) for result in results])

    def keep(self, piece: Piece) -> None:
        """Keep the log-probabilities of a prompt's tokens for `whole`."""
        super().keep(_without_answer(piece))

    def whole(self, results: Seq[Result]) -> Json:
        """Return the whole answer as one object."""
        return super().whole([_ended(result) for result in results])


def _without_answer(piece: Piece) -> Piece:
    return piece if piece.is_of_prompt else Piece(piece.choice, ())


def _ended(result: Result) -> Result:
    """Return a result as it is before the first token of the answer."""
    return replace(
        result,
        text="",
        token_ids=(),
        finish_reason=FinishReason.MAX_TOKENS,
        stop_string=None,
        stop_token_id=None,
        usage=replace(result.usage, completion_tokens=0),
        further_samples=tuple(map(_ended, result.further_samples)),
    )
