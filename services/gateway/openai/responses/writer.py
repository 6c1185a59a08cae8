"""ResponseWriter: responses as objects and events of OpenAI's API."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from typing import Any

from outrider import ContentDelta, MessageDelta, ReasoningDelta, Result, Token, ToolCall
from services.gateway.generation.encoded_list import EncodedList
from services.gateway.generation.head import Head
from services.gateway.generation.piece import Piece
from services.gateway.generation.usage import metrics_of, usage_of
from services.gateway.generation.writer import Api, Event, Json
from services.gateway.openai.finish import finish_reason, told_by_us
from services.gateway.openai.problem_body import problem_body, response_problem_event
from services.gateway.openai.responses.open_item import OpenItem
from services.gateway.openai.responses.request import ResponseRequest
from services.gateway.openai.token_text import told_token


class ResponseWriter:
    """What is thought and said become items that are open while they grow; calls come as a whole."""

    def __init__(self, request: ResponseRequest, head: Head) -> None:
        self._head = head
        self._request = request
        self._is_begun = False
        self._items: list[Json] = []
        self._open: OpenItem | None = None
        self._untold: list[Token] = []
        self._kept = EncodedList()

    def piece(self, piece: Piece) -> Seq[Event]:
        """What it adds to the item that is open, or to another one; a message tells of all tokens of the answer."""
        if self._request.tells_logprobs:
            self._untold += piece.tokens
        return [*self._begin(), *(() if piece.delta is None else self._delta(piece.delta))]

    def end(self, _: int, __: Result) -> Seq[Event]:
        """The end of the last item."""
        return [*self._begin(), *self._close()]

    def tail(self, results: Seq[Result]) -> Seq[Event]:
        """The whole response once more."""
        whole = self.whole(results)
        return [Event({"type": f"response.{whole['status']}", "response": whole}, f"response.{whole['status']}")]

    def keep(self, piece: Piece) -> None:
        """Its tokens, if they are to be told: all of them are the message's."""
        if self._request.tells_logprobs:
            self._kept.extend(map(told_token, piece.tokens))

    def whole(self, results: Seq[Result]) -> Json:
        """All of it."""
        (result,) = results
        assert result.message is not None
        is_cut = finish_reason(result) == "length"
        status = "incomplete" if is_cut else "completed"
        return {
            **self._base(status),
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "output": self._items or self._items_of(result),
            "usage": _usage(results),
            "metrics": metrics_of(results),
            "outrider": told_by_us(result),
        }

    def _base(self, status: str) -> Json:
        asked = self._request
        choice = asked.tool_choice
        return {
            "id": f"resp_{self._head.ticket.name}",
            "object": "response",
            "created_at": self._head.ticket.created,
            "status": status,
            "model": self._head.model,
            "output": [],
            "error": None,
            "incomplete_details": None,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "metadata": asked.metadata or {},
            "parallel_tool_calls": asked.parallel_tool_calls is not False,
            "previous_response_id": None,
            "store": False,
            "temperature": asked.temperature,
            "text": asked.text.model_dump(by_alias=True) if asked.text else {"format": {"type": "text"}},
            "tool_choice": "auto" if choice is None else choice if isinstance(choice, str) else choice.model_dump(),
            "tools": [tool.model_dump() for tool in asked.tools or ()],
            "top_p": asked.top_p,
            "truncation": "disabled",
            "usage": None,
        }

    def _begin(self) -> Iterator[Event]:
        if not self._is_begun:
            self._is_begun = True
            for name in ("response.created", "response.in_progress"):
                yield Event({"type": name, "response": self._base("in_progress")}, name)

    def _delta(self, delta: MessageDelta) -> Iterator[Event]:
        if isinstance(delta, ToolCall):
            yield from self._close()
            index = len(self._items)
            item = OpenItem.of_call(index, next(self._names_from(index)), delta)
            yield from item.opened()
            yield item.more(delta.arguments)
            self._items.append(item.whole())
            yield from item.closed()
            return
        kind = OpenItem.KINDS[type(delta)]
        if self._open is None or self._open.kind != kind:
            yield from self._close()
            self._open = OpenItem(kind, len(self._items), next(self._names_from(len(self._items))))
            yield from self._open.opened()
        yield self._open.more(delta.text, self._tokens_of(self._open))

    def _close(self) -> Iterator[Event]:
        if self._open is not None:
            self._open.add(self._tokens_of(self._open))
            self._items.append(self._open.whole())
            yield from self._open.closed()
            self._open = None

    def _tokens_of(self, item: OpenItem) -> list[Token]:
        """Those that a message has not told of yet; a thought leaves them to the message behind it."""
        if item.kind != "message":
            return []
        tokens, self._untold = self._untold, []
        return tokens

    def _items_of(self, result: Result) -> list[Json]:
        """The items that a whole message makes."""
        message, names = result.message, self._names_from(0)
        assert message is not None
        deltas: list[MessageDelta] = [ReasoningDelta(message.reasoning_content)] if message.reasoning_content else []
        if message.content or not (deltas or message.tool_calls):
            deltas.append(ContentDelta(str(message.content)))
        self._kept.extend(map(told_token, self._untold))  # of a stream that had no text
        items: list[Json] = []
        for delta in (*deltas, *message.tool_calls):
            name, index = next(names), len(items)
            if isinstance(delta, ToolCall):
                item = OpenItem.of_call(index, name, delta)
                item.more(delta.arguments)
            else:
                item = OpenItem(OpenItem.KINDS[type(delta)], index, name, logprobs=self._kept)
                item.more(delta.text)
            items.append(item.whole())
        return items

    def _names_from(self, index: int) -> Iterator[str]:
        """Names of items, the same when the response is taken up again."""
        while True:
            yield f"{self._head.ticket.name}_{index}"
            index += 1


def _usage(results: Seq[Result]) -> dict[str, Any]:
    usage = usage_of(results)
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {**usage["prompt_tokens_details"], "cache_write_tokens": 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0, **usage["completion_tokens_details"]},
        "total_tokens": usage["total_tokens"],
    }


RESPONSES = Api(ResponseRequest, ResponseWriter, problem_body, response_problem_event, is_numbered=True)
