"""Blocks: what Anthropic's messages are made of, and as messages of the RPC's client."""

import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Discriminator

from services.gateway.generation.message_source import MessageSource
from services.gateway.generation.request import Part


class Cached(Part):
    """A mark of what is to be cached, which changes nothing: all of it is, while there is room."""

    cache_control: dict[str, Any] | None = None


class TextBlock(Cached):
    """A text."""

    type: Literal["text"]
    text: str
    citations: None = None


class ThinkingBlock(Part):
    """What the model thought before."""

    type: Literal["thinking"]
    thinking: str
    signature: str | None = None


class ToolUseBlock(Cached):
    """A call of the model's."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class ToolResultBlock(Cached):
    """What a call has given."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[TextBlock] = ""
    is_error: bool | None = None


Block = Annotated[TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock, Discriminator("type")]


class AnthropicMessage(Part):
    """One message."""

    role: Literal["user", "assistant"]
    content: str | list[Block]


def as_messages(message: AnthropicMessage) -> list[dict[str, Any]]:
    """It as the client takes it: results of calls are messages of their own, before what is said beside them."""
    if isinstance(message.content, str):
        return [{"role": message.role, "content": message.content}]
    results = [block for block in message.content if isinstance(block, ToolResultBlock)]
    told = [{"role": "tool", "tool_call_id": one.tool_use_id, "content": text_of(one.content)} for one in results]
    others = [block for block in message.content if not isinstance(block, ToolResultBlock)]
    return [*told, _message(message.role, others)] if others or not told else told


def sources_of(message: AnthropicMessage, name: str) -> list[MessageSource]:
    """Where each of these comes from."""
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
                call = {"id": block.id, "function": {"name": block.name, "arguments": json.dumps(block.input)}}
                calls.append(call)
    message: dict[str, Any] = {"role": role, "content": "\n".join(texts) if texts else None}
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    return {**message, "tool_calls": calls} if calls else message


def text_of(content: str | Iterable[TextBlock]) -> str:
    """Texts, each on a line of its own."""
    return content if isinstance(content, str) else "\n".join(block.text for block in content)
