"""ChatWriter: writes chat completions as objects and events of OpenAI's API."""

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from typing import Any

from outrider import ArgumentsDelta, ContentDelta, Message, ReasoningDelta, Result, Token, ToolCallStart
from services.gateway.generation.encoded_list import EncodedList
from services.gateway.generation.head import Head
from services.gateway.generation.piece import PartDelta, Piece
from services.gateway.generation.usage import metrics_of, usage_of
from services.gateway.generation.writer import Api, Event, Json, choices_of
from services.gateway.openai.chat.request import ChatRequest
from services.gateway.openai.finish import finish_reason, outrider_fields, stop_reason
from services.gateway.openai.problem_body import problem_body, problem_event
from services.gateway.openai.token_text import token_record
from services.gateway.openai.usage_so_far import UsageSoFar


class ChatWriter:
    """Each piece is one event; the first event of a choice has the role."""

    def __init__(self, request: ChatRequest, head: Head) -> None:
        self._wants_logprobs = bool(request.logprobs)
        self._request = request
        self._usage = UsageSoFar(request, head)
        self._head = head
        self._calls = [-1] * head.num_choices  # the index of each choice's last call
        self._begun: set[int] = set()
        self._kept = [EncodedList() for _ in range(head.num_choices)]
        self._base = {
            "id": f"chatcmpl-{head.ticket.name}",
            "object": "chat.completion.chunk",
            "created": head.ticket.created,
            "model": head.model,
            "system_fingerprint": head.fingerprint,
        }

    def piece(self, piece: Piece) -> Seq[Event]:
        """Return the event of a piece, if it adds to the message or has tokens to report."""
        self._usage.add(piece)
        logprobs = self._logprobs(piece.tokens) if piece.tokens else None
        ids = self._ids(piece.token_ids)
        if piece.delta is None and logprobs is None and not any(ids.values()):
            return ()
        more = {} if piece.delta is None else self._delta(piece.choice, piece.delta)
        return (self._event(piece.choice, more, logprobs, **ids),)

    def end(self, choice: int, result: Result) -> Seq[Event]:
        """Return the event of why a choice ended."""
        return (self._event(choice, {}, None, **self._ids(()), **self._end(result)),)

    def tail(self, results: Seq[Result]) -> Seq[Event]:
        """Return the event of the usage, if it was requested."""
        if not self._request.wants_usage:
            return ()
        return (Event({**self._base, "choices": [], "usage": usage_of(results), "metrics": metrics_of(results)}),)

    def keep(self, piece: Piece) -> None:
        """Keep the piece's tokens for `whole`, if log-probabilities were requested."""
        if self._wants_logprobs:
            self._kept[piece.choice].extend(map(token_record, piece.tokens))

    def whole(self, results: Seq[Result]) -> Json:
        """Return the whole answer as one object."""
        choices = [
            {
                "index": index,
                "message": self._message(index, result.message),
                "logprobs": {"content": self._kept[index], "refusal": None} if self._wants_logprobs else None,
                **self._ids(result.token_ids),
                **self._end(result),
            }
            for index, result in enumerate(choices_of(results))
        ]
        body = {"choices": choices, "usage": usage_of(results), "metrics": metrics_of(results)}
        return {**self._base, "object": "chat.completion", **body, **self._prompt_ids(0)}

    def _message(self, choice: int, message: Message | None) -> Json:
        assert message is not None
        calls = [self._call(choice, index, call.name, call.arguments) for index, call in enumerate(message.tool_calls)]
        fields: Json = {"role": "assistant", "content": message.content or (None if calls else ""), "refusal": None}
        if message.reasoning_content:
            fields["reasoning_content"] = message.reasoning_content
        return {**fields, "tool_calls": calls} if calls else fields

    def _role(self, choice: int) -> Json:
        if choice in self._begun:
            return {}
        self._begun.add(choice)
        return {"role": "assistant", "content": ""}

    def _delta(self, choice: int, delta: PartDelta) -> Json:
        match delta:
            case ContentDelta(text):
                return {"content": text}
            case ReasoningDelta(text):
                return {"reasoning_content": text}
            case ToolCallStart(name):
                self._calls[choice] += 1
                index = self._calls[choice]
                return {"tool_calls": [{"index": index, **self._call(choice, index, name, "")}]}
            case ArgumentsDelta(text):
                return {"tool_calls": [{"index": self._calls[choice], "function": {"arguments": text}}]}

    def _call(self, choice: int, index: int, name: str, arguments: str) -> Json:
        """Return a tool call; its id is the same when the answer is resumed."""
        function = {"name": name, "arguments": arguments}
        return {"id": f"call_{self._head.ticket.name}_{choice}_{index}", "type": "function", "function": function}

    def _end(self, result: Result) -> dict[str, Any]:
        return {
            "finish_reason": finish_reason(result),
            "stop_reason": stop_reason(result),
            "outrider": outrider_fields(result),
        }

    def _event(self, choice: int, delta: Json, logprobs: Json | None, **more: object) -> Event:
        prompt_ids = {} if choice in self._begun else self._prompt_ids(choice)
        delta = {**self._role(choice), **delta}
        part = {"index": choice, "delta": delta, "logprobs": logprobs, "finish_reason": None, **more}
        return Event({**self._base, "choices": [part], **self._usage.fields(choice), **prompt_ids})

    def _ids(self, token_ids: Iterable[int]) -> Json:
        return {"token_ids": [*token_ids]} if self._request.return_token_ids else {}

    def _prompt_ids(self, choice: int) -> Json:
        ids = self._head.prompt_of(choice).prompt_token_ids
        return {"prompt_token_ids": [*ids]} if self._request.return_token_ids else {}

    def _logprobs(self, tokens: Iterable[Token]) -> Json | None:
        return {"content": [token_record(token) for token in tokens], "refusal": None} if self._wants_logprobs else None


CHAT = Api(ChatRequest, ChatWriter, problem_body, problem_event, last=b"data: [DONE]\n\n")
