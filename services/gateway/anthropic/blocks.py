"""Blocks: the parts of Anthropic's messages, and their conversion to messages of the RPC's client."""

import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Discriminator

from services.gateway.generation.history import HistoryPart
from services.gateway.generation.message_source import MessageSource


class TextBlock(HistoryPart):
    """A text block of a message."""

    type: Literal["text"]
    text: str


class ThinkingBlock(HistoryPart):
    """Thinking of the model in an earlier message."""

    type: Literal["thinking"]
    thinking: str


class RedactedThinkingBlock(HistoryPart):
    """Encrypted thinking of another model, which is passed over."""

    type: Literal["redacted_thinking"]


class ToolUseBlock(HistoryPart):
    """A tool call of the model."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any] | str | None = None


class ToolResultBlock(HistoryPart):
    """The result of a tool call."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[TextBlock] | None = None


Block = Annotated[
    TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock, Discriminator("type")
]


class AnthropicMessage(HistoryPart):
    """One message of a conversation."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


def as_messages(message: AnthropicMessage) -> list[dict[str, Any]]:
    """Convert a message for the client: tool results become messages of their own, before the other blocks."""
    if isinstance(message.content, str):
        return [{"role": message.role, "content": message.content}]
    results = [block for block in message.content if isinstance(block, ToolResultBlock)]
    tools = [{"role": "tool", "tool_call_id": one.tool_use_id, "content": text_of(one.content)} for one in results]
    others = [block for block in message.content if not isinstance(block, ToolResultBlock)]
    return [*tools, _message(message.role, others)] if others or not tools else tools


def sources_of(message: AnthropicMessage, name: str) -> list[MessageSource]:
    """Return the source of each message that `as_messages` returns, for the field names of errors."""
    if isinstance(message.content, str):
        return [MessageSource(name)]
    blocks = [(f"{name}.content[{index}]", block) for index, block in enumerate(message.content)]
    results = [MessageSource(path) for path, block in blocks if isinstance(block, ToolResultBlock)]
    calls = [path for path, block in blocks if isinstance(block, ToolUseBlock)]
    return results if results and len(results) == len(blocks) else [*results, MessageSource(name, calls)]


def _message(role: str, blocks: Iterable[Block]) -> dict[str, Any]:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case TextBlock(text=text):
                texts.append(text)
            case ThinkingBlock(thinking=thinking):
                thoughts.append(thinking)
            case ToolUseBlock():
                calls.append({"id": block.id, "function": {"name": block.name, "arguments": json.dumps(block.input)}})
    message: dict[str, Any] = {"role": role, "content": "\n".join(texts) if texts else None}
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    return {**message, "tool_calls": calls} if calls else message


def text_of(content: str | Iterable[TextBlock] | None) -> str:
    """Return the texts of a content, each on a line of its own."""
    return content or "" if isinstance(content, str | None) else "\n".join(block.text for block in content)
