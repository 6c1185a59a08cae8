"""Chat: reads conversations from messages, and collects every error in them."""

from collections.abc import Iterable
from typing import Any

from outrider.v1 import common_pb2
from services.engine.grammar.source import read_json
from services.service.limits import MAX_MESSAGES, MAX_TEMPLATE_VARIABLES
from services.service.validation import Violations
from services.target.api.tools import check_tool_choice, has_tools, read_tools
from services.target.models.served_model import ServedModel
from services.target.prompt.conversation import Conversation

_OUR_VARIABLES = ("messages", "tools", "add_generation_prompt")


def read_chat(chat: common_pb2.Chat, field: str, model: ServedModel, found: Violations) -> Conversation | None:
    """The conversation for the chat template; None if it is invalid, with the errors added to `found`.

    Walks JSON, which may take long.
    """
    if not model.chat_template.exists:
        found.add(field, "is set, but this model has no chat template", "text or token_ids")
        return None
    wrong = Violations()
    messages = _read_messages(chat, f"{field}.messages", wrong)
    tools = read_tools(chat.tools, f"{field}.tools", model, wrong)
    check_tool_choice(chat, field, model, wrong)
    conversation = Conversation(
        messages,
        tools if tools and has_tools(chat) else None,
        _read_variables(chat, f"{field}.template_variables", wrong),
        add_generation_prompt=_begins_message(chat),
        continue_final_message=chat.continue_final_message,
    )
    if chat.continue_final_message:
        _check_last_message(chat, field, wrong)
    found.extend(wrong)
    return None if wrong else conversation


def _begins_message(chat: common_pb2.Chat) -> bool:
    return chat.add_generation_prompt if chat.HasField("add_generation_prompt") else not chat.continue_final_message


def _check_last_message(chat: common_pb2.Chat, field: str, found: Violations) -> None:
    if chat.add_generation_prompt:
        found.add(f"{field}.add_generation_prompt", "is true", "false, or not set, with continue_final_message")
    if chat.messages and (chat.messages[-1].tool_calls or not _has_text(chat.messages[-1])):
        problem = "is true, but the last message has calls, or no text"
        found.add(f"{field}.continue_final_message", problem, "only with a last message of text")


def _has_text(message: common_pb2.ChatMessage) -> bool:
    return bool(message.content or message.parts)


def _read_messages(chat: common_pb2.Chat, field: str, found: Violations) -> list[dict[str, Any]]:
    if not chat.messages:
        found.add(field, "is empty", "at least one message")
        return []
    for name in ("parts", "tool_calls"):
        if (count := sum(len(getattr(message, name)) for message in chat.messages)) > MAX_MESSAGES:
            found.add(field, f"have {count} {name}", f"at most {MAX_MESSAGES} in all")
            return []
    return [_read_message(message, f"{field}[{index}]", found) for index, message in enumerate(chat.messages)]


def _read_message(message: common_pb2.ChatMessage, field: str, found: Violations) -> dict[str, Any]:
    """A message as chat templates expect it; keys for fields that are not set are absent."""
    fields: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.parts:
        if message.content:
            found.add(f"{field}.parts", "are set beside content", "one of the two")
        fields["content"] = _read_parts(message.parts, f"{field}.parts", found)
    elif message.tool_calls and not message.content:
        del fields["content"]
    if message.HasField("reasoning_content"):
        fields["reasoning_content"] = message.reasoning_content
    if message.tool_calls:
        fields["tool_calls"] = [
            _read_call(call, f"{field}.tool_calls[{index}]", found) for index, call in enumerate(message.tool_calls)
        ]
    return fields | {name: getattr(message, name) for name in ("tool_call_id", "name") if message.HasField(name)}


def _read_parts(parts: Iterable[common_pb2.ContentPart], field: str, found: Violations) -> list[dict[str, str]]:
    found.check_entries(field, parts, lambda part: part.HasField("text"), lambda _: "is of no kind", "text")
    return [{"type": "text", "text": part.text} for part in parts]


def _read_call(call: common_pb2.ToolCall, field: str, found: Violations) -> dict[str, Any]:
    if not call.name:
        found.add(f"{field}.name", "is empty", "the name of a tool")
    function = {"name": call.name, "arguments": _read_object(call.arguments or "{}", f"{field}.arguments", found)}
    return {**({"id": call.id} if call.HasField("id") else {}), "type": "function", "function": function}


def _read_variables(chat: common_pb2.Chat, field: str, found: Violations) -> dict[str, Any]:
    if not chat.HasField("template_variables"):
        return {}
    size = len(chat.template_variables.encode())
    if size > MAX_TEMPLATE_VARIABLES:
        found.add(field, f"has {size} bytes", f"at most {MAX_TEMPLATE_VARIABLES}")
        return {}
    variables = _read_object(chat.template_variables, field, found)
    if taken := [name for name in _OUR_VARIABLES if name in variables]:
        found.add(field, f"names {taken[0]}", f"variables other than {', '.join(_OUR_VARIABLES)}")
    return variables


def _read_object(text: str, field: str, found: Violations) -> dict[str, Any]:
    try:
        value = read_json(text)
    except ValueError as error:
        found.add(field, f"is no JSON: {error}", "a JSON object")
        return {}
    if not isinstance(value, dict):
        found.add(field, f"is {type(value).__name__} in JSON", "a JSON object")
        return {}
    return value
