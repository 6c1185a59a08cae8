"""ResponseWriter: writes responses as objects and events of OpenAI's API."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from typing import Any

from outrider import Result, Token, ToolCallStart
from services.gateway.generation.encoded_list import EncodedList
from services.gateway.generation.head import Head
from services.gateway.generation.piece import PartDelta, Piece
from services.gateway.generation.usage import metrics_of, usage_of
from services.gateway.generation.writer import Api, Event, Json
from services.gateway.openai.finish import finish_reason, outrider_fields
from services.gateway.openai.problem_body import problem_body, response_problem_event
from services.gateway.openai.responses.open_item import OpenItem
from services.gateway.openai.responses.request import ResponseRequest
from services.gateway.openai.token_text import token_record

_STATUS = {"length": "incomplete", "error": "failed"}  # by OpenAI's finish reason of chat completions
_FAILURE = {"code": "server_error", "message": "the model's logits are not numbers"}


class ResponseWriter:
    """Thinking, text and tool calls become items that are streamed in deltas."""

    def __init__(self, request: ResponseRequest, head: Head) -> None:
        self._head = head
        self._request = request
        self._is_begun = False
        self._items: list[Json] = []
        self._open: OpenItem | None = None
        self._unsent: list[Token] = []
        self._kept = EncodedList()

    def piece(self, piece: Piece) -> Seq[Event]:
        """Return the events of a piece, which extends the open item or begins another one.

        All log-probabilities of the answer are reported with the message.
        """
        if self._request.wants_logprobs:
            self._unsent += piece.tokens
        return [*self._begin(), *(() if piece.delta is None else self._delta(piece.delta))]

    def end(self, _: int, result: Result) -> Seq[Event]:
        """Return the events that end the last item; an empty answer has an empty message."""
        is_empty = self._open is None and not self._items
        return [*self._begin(), *(self._opened("message") if is_empty else ()), *self._close(_item_status(result))]

    def tail(self, results: Seq[Result]) -> Seq[Event]:
        """Return the last event, which repeats the whole response."""
        whole = self.whole(results)
        return [Event({"type": f"response.{whole['status']}", "response": whole}, f"response.{whole['status']}")]

    def keep(self, piece: Piece) -> None:
        """Keep a piece's tokens for `whole`, if log-probabilities are requested."""
        if self._request.wants_logprobs:
            self._kept.extend(map(token_record, piece.tokens))

    def whole(self, results: Seq[Result]) -> Json:
        """Return the whole response as one object."""
        (result,) = results
        assert result.message is not None
        status = _STATUS.get(finish_reason(result), "completed")
        return {
            **self._base(status),
            "error": _FAILURE if status == "failed" else None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "output": self._items or self._items_of(result),
            "usage": _usage(results),
            "metrics": metrics_of(results),
            "outrider": outrider_fields(result),
        }

    def _base(self, status: str) -> Json:
        request = self._request
        choice = request.tool_choice
        return {
            "id": f"resp_{self._head.ticket.name}",
            "object": "response",
            "created_at": self._head.ticket.created,
            "status": status,
            "model": self._head.model,
            "output": [],
            "error": None,
            "incomplete_details": None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata or {},
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": None,
            "store": False,
            "temperature": request.temperature,
            "text": request.text.model_dump(by_alias=True) if request.text else {"format": {"type": "text"}},
            "tool_choice": "auto" if choice is None else choice if isinstance(choice, str) else choice.model_dump(),
            "tools": [tool.model_dump() for tool in request.tools or ()],
            "top_p": request.top_p,
            "truncation": "disabled",
            "usage": None,
        }

    def _begin(self) -> Iterator[Event]:
        if not self._is_begun:
            self._is_begun = True
            for name in ("response.created", "response.in_progress"):
                yield Event({"type": name, "response": self._base("in_progress")}, name)

    def _delta(self, delta: PartDelta) -> Iterator[Event]:
        if isinstance(delta, ToolCallStart):
            yield from self._opened("function_call", delta.name)
            return
        kind = OpenItem.KINDS[type(delta)]
        if self._open is None or self._open.kind != kind:
            yield from self._opened(kind)
        assert self._open is not None
        yield self._open.more(delta.text, self._tokens_of(self._open))

    def _opened(self, kind: str, tool: str | None = None) -> Iterator[Event]:
        yield from self._close()
        self._open = OpenItem(kind, len(self._items), self._name(len(self._items)), tool)
        yield from self._open.opened()

    def _close(self, status: str = "completed") -> Iterator[Event]:
        if self._open is not None:
            self._open.add(self._tokens_of(self._open))
            item = self._open.whole(status)
            self._items.append(item)
            yield from self._open.closed(item)
            self._open = None

    def _tokens_of(self, item: OpenItem) -> list[Token]:
        """Return the tokens that no message has reported yet; thinking leaves its tokens to the message after it."""
        if item.kind != "message":
            return []
        tokens, self._unsent = self._unsent, []
        return tokens

    def _items_of(self, result: Result) -> list[Json]:
        """Return the items of a whole message."""
        message = result.message
        assert message is not None
        parts: list[tuple[str, str, str | None]] = []
        if message.reasoning_content:
            parts.append(("reasoning", message.reasoning_content, None))
        if message.content or not (parts or message.tool_calls):
            parts.append(("message", str(message.content), None))
        parts += (("function_call", call.arguments, call.name) for call in message.tool_calls)
        items: list[Json] = []
        for index, (kind, text, tool) in enumerate(parts):
            item = OpenItem(kind, index, self._name(index), tool, self._kept)
            item.more(text)
            items.append(item.whole(_item_status(result) if index == len(parts) - 1 else "completed"))
        return items

    def _name(self, index: int) -> str:
        """Return the name of an item, which is the same when the response is resumed."""
        return f"{self._head.ticket.name}_{index}"


def _item_status(result: Result) -> str:
    """Return the status of the item in which an answer has ended."""
    return "incomplete" if _STATUS.get(finish_reason(result)) == "incomplete" else "completed"


def _usage(results: Seq[Result]) -> dict[str, Any]:
    usage = usage_of(results)
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {**usage["prompt_tokens_details"], "cache_write_tokens": 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": usage["completion_tokens_details"],
        "total_tokens": usage["total_tokens"],
    }


RESPONSES = Api(ResponseRequest, ResponseWriter, problem_body, response_problem_event, is_numbered=True)
