"""InfillWriter: writes the text that fills a gap in the format of llama.cpp's server."""

from collections.abc import Sequence as Seq

from outrider import ContentDelta, FinishReason, Result
from services.gateway.generation.head import Head
from services.gateway.generation.piece import Piece
from services.gateway.generation.usage import metrics_of
from services.gateway.generation.writer import Api, Event, Json
from services.gateway.infill.request import InfillRequest
from services.gateway.openai.finish import outrider_fields
from services.gateway.openai.problem_body import problem_body, problem_event

_STOP_TYPES = {FinishReason.STOP_TOKEN: "eos", FinishReason.STOP_STRING: "word"}


class InfillWriter:
    """Each piece is one event; the last event has the counts and times, and no text."""

    def __init__(self, _: InfillRequest, head: Head) -> None:
        self._head = head
        self._predicted = 0

    def piece(self, piece: Piece) -> Seq[Event]:
        """Return the event of a piece."""
        self._predicted += len(piece.token_ids)
        text = piece.delta.text if isinstance(piece.delta, ContentDelta) else ""
        counts = {"tokens_predicted": self._predicted, "tokens_evaluated": self._head.prompts[0].prompt_tokens}
        return (Event({"index": 0, "content": text, "tokens": [*piece.token_ids], "stop": False, **counts}),)

    def end(self, _: int, result: Result) -> Seq[Event]:
        """Return the event of the end."""
        return (Event({"index": 0, "content": "", "tokens": [], **self._end(result)}),)

    def tail(self, _: Seq[Result]) -> Seq[Event]:
        """Return no events: the last one was sent by `end`."""
        return ()

    def keep(self, piece: Piece) -> None:
        """Do nothing: the result has all that is reported."""

    def whole(self, results: Seq[Result]) -> Json:
        """Return the whole answer as one object."""
        (result,) = results
        return {"index": 0, "content": result.text, "tokens": [*result.token_ids], **self._end(result)}

    def _end(self, result: Result) -> Json:
        return {
            "stop": True,
            "stop_type": _STOP_TYPES.get(result.finish_reason, "limit"),
            "stopping_word": result.stop_string or "",
            "model": self._head.model,
            "tokens_predicted": result.usage.completion_tokens,
            "tokens_evaluated": result.usage.prompt_tokens,
            "tokens_cached": result.usage.cached_tokens,
            "truncated": False,
            "timings": _timings(result),
            "metrics": metrics_of([result]),
            "system_fingerprint": self._head.fingerprint,
            "outrider": outrider_fields(result),
        }


def _timings(result: Result) -> Json:
    prompt = result.usage.prompt_tokens - min(result.usage.cached_tokens, result.usage.prompt_tokens)
    predicted = result.usage.completion_tokens
    return {
        "cache_n": result.usage.cached_tokens,
        **_timing("prompt", prompt, result.timings.prefill),
        **_timing("predicted", predicted, result.timings.decode),
    }


def _timing(name: str, count: int, seconds: float) -> Json:
    return {
        f"{name}_n": count,
        f"{name}_ms": seconds * 1000,
        f"{name}_per_token_ms": seconds * 1000 / count if count else 0.0,
        f"{name}_per_second": count / seconds if seconds else 0.0,
    }


INFILL = Api(InfillRequest, InfillWriter, problem_body, problem_event)
