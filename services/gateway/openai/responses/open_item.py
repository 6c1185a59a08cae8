"""OpenItem: an item of a response while it is generated, and its events."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from outrider import ArgumentsDelta, ContentDelta, ReasoningDelta, Token
from services.gateway.generation.call_arguments import are_whole
from services.gateway.generation.encoded_list import EncodedList
from services.gateway.generation.writer import Event, Json
from services.gateway.openai.token_text import token_record

_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_PARTS = {"message": "output_text", "reasoning": "reasoning_text"}


class OpenItem:
    """A message, thinking or a tool call."""

    KINDS: ClassVar[dict[type, str]] = {
        ContentDelta: "message",
        ReasoningDelta: "reasoning",
        ArgumentsDelta: "function_call",
    }

    def __init__(
        self, kind: str, index: int, name: str, tool: str | None = None, logprobs: EncodedList | None = None
    ) -> None:
        """`tool` is the name of the called tool; `logprobs` are those of tokens that a message already has."""
        self.kind = kind
        self._text: list[str] = []
        self._place = {"item_id": f"{_PREFIXES[kind]}_{name}", "output_index": index}
        self._tool = tool
        self._logprobs = EncodedList() if logprobs is None else logprobs

    def opened(self) -> Iterator[Event]:
        """Yield the events of its beginning."""
        yield _event(
            "response.output_item.added", output_index=self._place["output_index"], item=self._item("in_progress")
        )
        if self._tool is None:
            yield self._part_event("added", [])

    def more(self, text: str, tokens: Iterable[Token] = ()) -> Event:
        """Add text, and return its event, with the log-probabilities of its tokens if they are reported."""
        self._text.append(text)
        new = self.add(tokens)
        if self._tool is not None:
            return _event("response.function_call_arguments.delta", **self._place, delta=text)
        logprobs: Json = {"logprobs": new} if self.kind == "message" else {}
        return _event(f"response.{_PARTS[self.kind]}.delta", **self._place, content_index=0, delta=text, **logprobs)

    def add(self, tokens: Iterable[Token]) -> list[Json]:
        """Add tokens without text of their own, and return their records."""
        new = [token_record(token) for token in tokens]
        if new:
            self._logprobs.extend(new)
        return new

    def closed(self, whole: Json) -> Iterator[Event]:
        """Yield the events of its end, which repeat the whole item."""
        text = "".join(self._text)
        if self._tool is not None:
            yield _event("response.function_call_arguments.done", **self._place, name=self._tool, arguments=text)
        else:
            logprobs: Json = {"logprobs": self._logprobs} if self.kind == "message" else {}
            yield _event(f"response.{_PARTS[self.kind]}.done", **self._place, content_index=0, text=text, **logprobs)
            yield self._part_event("done", self._logprobs)
        yield _event("response.output_item.done", output_index=self._place["output_index"], item=whole)

    def whole(self, status: str = "completed") -> Json:
        """Return the item after its end; it is `incomplete` if it is cut, and a call if its arguments are."""
        if self._tool is not None:
            status = "completed" if are_whole("".join(self._text)) else "incomplete"
        return self._item(status)

    def _item(self, status: str) -> Json:
        item: Json = {"id": self._place["item_id"], "type": self.kind, "status": status}
        if self._tool is not None:
            name = str(self._place["item_id"]).removeprefix("fc_")
            return {**item, "call_id": f"call_{name}", "name": self._tool, "arguments": "".join(self._text)}
        content = [] if status == "in_progress" else [self._part(self._logprobs)]
        if self.kind == "reasoning":
            return {**item, "summary": [], "content": content}
        return {**item, "role": "assistant", "content": content}

    def _part(self, logprobs: object) -> Json:
        part: Json = {"type": _PARTS[self.kind], "text": "".join(self._text)}
        return {**part, "annotations": [], "logprobs": logprobs} if self.kind == "message" else part

    def _part_event(self, what: str, logprobs: object) -> Event:
        return _event(f"response.content_part.{what}", **self._place, content_index=0, part=self._part(logprobs))


def _event(name: str, /, **fields: object) -> Event:
    return Event({"type": name, **fields}, name)
