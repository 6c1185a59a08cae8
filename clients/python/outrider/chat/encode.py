"""Conversations from Python values to protobuf messages; dictionaries may be those of OpenAI's API."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from outrider.chat.message import Message, ToolCall
from outrider.v1 import common_pb2

Conversation = Sequence[Message | Mapping[str, Any]]
_MESSAGE_KEYS = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content")
_MODES = {
    "auto": common_pb2.TOOL_CHOICE_MODE_AUTO,
    "none": common_pb2.TOOL_CHOICE_MODE_NONE,
    "required": common_pb2.TOOL_CHOICE_MODE_REQUIRED,
}


def encode_messages(conversation: Conversation) -> list[common_pb2.ChatMessage]:
    """Messages; raises TypeError for what is none."""
    return [_message(entry) for entry in conversation]


def _message(entry: Message | Mapping[str, Any]) -> common_pb2.ChatMessage:
    fields: Mapping[str, Any]
    if isinstance(entry, Message):
        fields = {key: getattr(entry, key) for key in _MESSAGE_KEYS}
    elif isinstance(entry, Mapping) and "role" in entry and ("content" in entry or entry.get("tool_calls")):
        fields = {key: value for key, value in entry.items() if value is not None}
    else:
        fields = {}
    if not {"role"} <= fields.keys() <= {*_MESSAGE_KEYS}:
        wanted = "a mapping with role, content or tool_calls, and perhaps " + ", ".join(_MESSAGE_KEYS[3:])
        raise TypeError(f"a message is an outrider.Message or {wanted}, not {entry!r}")
    content = fields.get("content") or ""
    is_text = isinstance(content, str)
    return common_pb2.ChatMessage(
        role=fields["role"],
        content=content if is_text else "",
        parts=() if is_text else map(_part, content),
        tool_calls=map(_tool_call, fields.get("tool_calls") or ()),
        **{key: fields.get(key) for key in _MESSAGE_KEYS[3:]},
    )


def _part(part: str | Mapping[str, str]) -> common_pb2.ContentPart:
    if isinstance(part, str):
        return common_pb2.ContentPart(text=part)
    if not isinstance(part, Mapping) or "text" not in part:
        raise TypeError(f"a part of a message is text, or a mapping with text, not {part!r}")
    return common_pb2.ContentPart(text=part["text"])


def _tool_call(call: ToolCall | Mapping[str, Any]) -> common_pb2.ToolCall:
    if isinstance(call, ToolCall):
        return common_pb2.ToolCall(id=call.id, name=call.name, arguments=call.arguments)
    function = call.get("function", call)
    arguments = _json(function.get("arguments") or "")
    return common_pb2.ToolCall(id=call.get("id"), name=function["name"], arguments=arguments)


def encode_tools(tools: Iterable[Mapping[str, Any]]) -> list[common_pb2.Tool]:
    """Tools; raises TypeError for what is none."""
    return [_tool(tool) for tool in tools]


def _tool(tool: Mapping[str, Any]) -> common_pb2.Tool:
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or "name" not in function:
        raise TypeError(f"a tool is a mapping with a name, or with a function that has one, not {tool!r}")
    parameters = function.get("parameters")
    return common_pb2.Tool(
        name=function["name"],
        description=function.get("description"),
        parameters=None if parameters is None else _json(parameters),
        strict=function.get("strict"),
    )


def encode_tool_choice(choice: str) -> common_pb2.ToolChoice:
    """One of the general choices, or else the tool of that name."""
    if choice in _MODES:
        return common_pb2.ToolChoice(mode=_MODES[choice])
    return common_pb2.ToolChoice(tool=choice)


def _json(value: str | Mapping[str, Any]) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def encode_variables(variables: Mapping[str, Any]) -> str:
    """Variables of the chat template; raises TypeError for what JSON does not have."""
    return json.dumps(dict(variables))
