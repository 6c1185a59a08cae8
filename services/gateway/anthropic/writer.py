"""MessageWriter: writes answers as objects and events of Anthropic's API."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq

from outrider import ArgumentsDelta, ContentDelta, FinishReason, ReasoningDelta, Result, ToolCall, ToolCallStart
from services.gateway.anthropic.problem_body import problem_body, problem_event
from services.gateway.anthropic.request import MessageRequest
from services.gateway.generation.call_arguments import are_whole, read_arguments
from services.gateway.generation.cut import is_cut
from services.gateway.generation.head import Head
from services.gateway.generation.piece import PartDelta, Piece
from services.gateway.generation.usage import metrics_of
from services.gateway.generation.writer import Api, Event, Json

_Start = ContentDelta | ReasoningDelta | ToolCallStart


class MessageWriter:
    """Thinking, text and tool calls become blocks that are streamed in deltas."""

    def __init__(self, _: MessageRequest, head: Head) -> None:
        self._head = head
        self._is_begun = False
        self._open: type[_Start] | None = None
        self._index = -1

    def piece(self, piece: Piece) -> Seq[Event]:
        """Return the events of a piece, which extends the open block or begins another one."""
        return [*self._begin(), *(() if piece.delta is None else self._delta(piece.delta))]

    def end(self, _: int, result: Result) -> Seq[Event]:
        """Return the events that end the last block and report why the answer ended."""
        ended = {"type": "message_delta", "delta": _ends(result), "usage": self._usage(result)}
        data = {**ended, "metrics": metrics_of([result]), "outrider": self._ours(result)}
        return [*self._begin(), *self._close(), Event(data, "message_delta")]

    def tail(self, _: Seq[Result]) -> Seq[Event]:
        """Return the event that ends the stream."""
        return [Event({"type": "message_stop"}, "message_stop")]

    def keep(self, piece: Piece) -> None:
        """Do nothing: the API does not report tokens."""

    def whole(self, results: Seq[Result]) -> Json:
        """Return the whole answer as one object."""
        (result,) = results
        message = result.message
        assert message is not None
        deltas: list[_Start] = [ReasoningDelta(message.reasoning_content)] if message.reasoning_content else []
        if message.content:
            deltas.append(ContentDelta(str(message.content)))
        blocks = [
            self._block(index, delta, is_whole=True) for index, delta in enumerate((*deltas, *message.tool_calls))
        ]
        body = {"content": blocks, **_ends(result), "usage": self._usage(result)}
        return {**self._base(), **body, "metrics": metrics_of(results), "outrider": self._ours(result)}

    def _base(self) -> Json:
        ticket = self._head.ticket
        base = {"id": f"msg_{ticket.name}", "type": "message", "role": "assistant", "model": self._head.model}
        return {**base, "content": [], "stop_reason": None, "stop_sequence": None}

    def _begin(self) -> Iterator[Event]:
        if not self._is_begun:
            self._is_begun = True
            usage = {"input_tokens": self._head.prompts[0].prompt_tokens, "output_tokens": 0}
            yield Event({"type": "message_start", "message": {**self._base(), "usage": usage}}, "message_start")

    def _delta(self, delta: PartDelta) -> Iterator[Event]:
        match delta:
            case ToolCallStart():
                yield from self._start(delta)
                return
            case ContentDelta() | ReasoningDelta() if self._open is not type(delta):
                yield from self._start(delta)
        yield self._event("delta", delta=_more(delta))

    def _start(self, delta: _Start) -> Iterator[Event]:
        yield from self._close()
        self._index += 1
        self._open = type(delta)
        yield self._event("start", content_block=self._block(self._index, delta, is_whole=False))

    def _close(self) -> Iterator[Event]:
        if self._open is not None:
            self._open = None
            yield self._event("stop")

    def _event(self, what: str, **fields: object) -> Event:
        name = f"content_block_{what}"
        return Event({"type": name, "index": self._index, **fields}, name)

    def _block(self, index: int, delta: _Start | ToolCall, *, is_whole: bool) -> Json:
        match delta:
            case ContentDelta(text):
                return {"type": "text", "text": text if is_whole else ""}
            case ReasoningDelta(text):
                return {"type": "thinking", "thinking": text if is_whole else "", "signature": ""}
            case ToolCall(name, arguments):
                return self._tool_use(index, name, read_arguments(arguments))
            case ToolCallStart(name):
                return self._tool_use(index, name, {})

    def _tool_use(self, index: int, name: str, arguments: object) -> Json:
        return {"type": "tool_use", "id": f"toolu_{self._head.ticket.name}_{index}", "name": name, "input": arguments}

    def _usage(self, result: Result) -> Json:
        cached = result.usage.cached_tokens  # may include tokens of an interrupted answer
        read = min(cached, result.usage.prompt_tokens)
        usage = {"input_tokens": result.usage.prompt_tokens - read, "output_tokens": result.usage.completion_tokens}
        details = {"output_tokens_details": {"reasoning_tokens": result.usage.reasoning_tokens}}
        return {**usage, "cache_read_input_tokens": read, "cache_creation_input_tokens": 0, **details}

    def _ours(self, result: Result) -> Json:
        return {"finish_reason": result.finish_reason.value, "seed": self._head.ticket.seed}


def _more(delta: ContentDelta | ReasoningDelta | ArgumentsDelta) -> Json:
    match delta:
        case ContentDelta(text):
            return {"type": "text_delta", "text": text}
        case ReasoningDelta(text):
            return {"type": "thinking_delta", "thinking": text}
        case ArgumentsDelta(text):
            return {"type": "input_json_delta", "partial_json": text}


def _ends(result: Result) -> Json:
    calls = () if result.message is None else result.message.tool_calls
    is_whole = all(are_whole(call.arguments) for call in calls)
    if is_cut(result) or result.finish_reason is FinishReason.INVALID_LOGITS or not is_whole:
        return {"stop_reason": "max_tokens", "stop_sequence": None}
    if calls:
        return {"stop_reason": "tool_use", "stop_sequence": None}
    reason = "end_turn" if result.stop_string is None else "stop_sequence"
    return {"stop_reason": reason, "stop_sequence": result.stop_string}


_PING = b'event: ping\ndata: {"type": "ping"}\n\n'
MESSAGES = Api(MessageRequest, MessageWriter, problem_body, problem_event, ping=_PING)
