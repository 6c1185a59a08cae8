"""UsageSoFar: the usage in the events of a stream, as in vLLM: each event has that of its choice so far."""

from services.gateway.generation.head import Head
from services.gateway.generation.piece import Piece
from services.gateway.generation.writer import Json
from services.gateway.openai.answer_fields import AnswerFields


class UsageSoFar:
    """Counts the tokens of each choice."""

    def __init__(self, request: AnswerFields, head: Head) -> None:
        self._request = request
        self._head = head
        self._tokens = [0] * head.num_choices

    def add(self, piece: Piece) -> None:
        """Count the tokens of a piece."""
        self._tokens[piece.choice] += len(piece.token_ids)

    def fields(self, choice: int) -> Json:
        """Return the usage in an event of a choice: as the request wants it, null, or no field."""
        if not self._request.wants_usage_so_far:
            return {"usage": None} if self._request.wants_usage else {}
        prompt, completion = self._head.prompt_of(choice).prompt_tokens, self._tokens[choice]
        usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        return {"usage": usage}
