"""GenerateWriter: writes the RPC's events, and the whole answer, as JSON."""

from collections.abc import Sequence as Seq
from dataclasses import fields
from typing import Any

from pydantic_core import to_jsonable_python

from outrider import ContentDelta, Result
from services.gateway.generate.request import GenerateRequest
from services.gateway.generation.encoded_list import EncodedList
from services.gateway.generation.head import Head
from services.gateway.generation.piece import Piece
from services.gateway.generation.problem import Problem
from services.gateway.generation.writer import Api, Event, Json
from services.gateway.openai.problem_body import problem_body

_SENT_BEFORE = ("started", "text", "token_ids", "tokens", "pass_reports", "prompt_records")
_NOT_REQUESTED = ("further_samples", "message")
_WRITTEN_APART = ("proof",)  # which repeats the answer
_END = [field.name for field in fields(Result) if field.name not in (*_SENT_BEFORE, *_NOT_REQUESTED, *_WRITTEN_APART)]


class GenerateWriter:
    """Events `started`, `chunk` and `finished`. Bytes are in base64, times in seconds; minus infinity is null."""

    def __init__(self, request: GenerateRequest, head: Head) -> None:
        self._request = request
        self._head = head
        self._is_begun = False
        self._kept = {"tokens": EncodedList(), "pass_reports": EncodedList()}

    def piece(self, piece: Piece) -> Seq[Event]:
        """Return the event of a piece: its text and tokens, and the reports of the passes that ended with them."""
        text = piece.delta.text if isinstance(piece.delta, ContentDelta) else ""
        chunk = {"text": text, "token_ids": piece.token_ids, "tokens": piece.tokens, "pass_reports": piece.reports}
        return [*self._begin(), Event(_json(chunk), "chunk")]

    def end(self, choice: int, result: Result) -> Seq[Event]:  # noqa: ARG002 - there is only one
        """Return the event of the end: why the text ended, and the counts of speculation."""
        return [*self._begin(), Event(_end(result), "finished")]

    def tail(self, results: Seq[Result]) -> Seq[Event]:  # noqa: ARG002 - `end` has sent it
        """Return no events: the last one was sent by `end`."""
        return ()

    def keep(self, piece: Piece) -> None:
        """Keep the tokens and pass reports of a piece for `whole`."""
        for name, entries in _json({"tokens": piece.tokens, "pass_reports": piece.reports}).items():
            self._kept[name].extend(entries)

    def whole(self, results: Seq[Result]) -> Json:
        """Return the whole answer as one object."""
        (result,) = results
        return {**self._started(), "text": result.text, "token_ids": result.token_ids, **self._kept, **_end(result)}

    def _begin(self) -> list[Event]:
        if self._is_begun:
            return []
        self._is_begun = True
        return [Event(self._started(), "started")]

    def _started(self) -> Json:
        head = self._head
        return {
            "request_id": self._request.request_id or head.ticket.name,
            "seed": head.ticket.seed,
            "model": head.model,
            "fingerprint": head.fingerprint,
            "prompt_tokens": head.prompts[0].prompt_tokens,
        }


def _end(result: Result) -> Json:
    return _json({name: getattr(result, name) for name in _END} | {"request_digest": result.started.request_digest})


def _json(value: dict[str, Any]) -> Json:
    plain: Json = to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null")
    return plain


def _problem_event(problem: Problem) -> Event:
    return Event(problem_body(problem), "error")


GENERATE = Api(GenerateRequest, GenerateWriter, problem_body, _problem_event)
