"""Chat: reads conversations and their tools from messages, and collects every error in them."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from typing import Any

from outrider.v1 import common_pb2
from services.engine.grammar.source import read_json
from services.service.limits import LIMITS, MAX_MESSAGES, MAX_TEMPLATE_VARIABLES
from services.service.validation import Violations
from services.target.api.request_messages import GenerationRequest
from services.target.models.served_model import ServedModel
from services.target.prompt.chat_template import Conversation

_OUR_VARIABLES = ("messages", "tools", "add_generation_prompt")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NAMES = "1 to 64 of A-Z, a-z, 0-9, _, - and ."
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
_NONE = common_pb2.TOOL_CHOICE_MODE_NONE
_REQUIRED = common_pb2.TOOL_CHOICE_MODE_REQUIRED


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
    """A message as chat templates expect it; keys for optional fields that are not set are absent."""
    fields: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.parts:
        if message.content:
            found.add(f"{field}.parts", "are set beside content", "one of the two")
        fields["content"] = _read_parts(message.parts, f"{field}.parts", found)
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
    function = {"name": call.name, "arguments": _read_arguments(call.arguments)}
    return {**({"id": call.id} if call.HasField("id") else {}), "type": "function", "function": function}


def _read_arguments(text: str) -> dict[str, Any]:
    """The arguments of a past call, also if they are encoded twice; empty if they are no object, such as cut JSON.

    What a model wrote once must not make all further turns of its conversation fail.
    """
    value: object = text
    try:
        for _ in range(2):
            value = read_json(value) if isinstance(value, str) else value
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


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


def has_tools(chat: common_pb2.Chat) -> bool:
    """Whether the prompt describes tools to the model."""
    return bool(chat.tools) and chat.tool_choice.mode != _NONE


def callable_tools(message: GenerationRequest) -> Seq[common_pb2.Tool]:
    """The tools that the answer may call: those of the conversation, or those given for a prompt that is none."""
    if message.prompt.WhichOneof("input") != "chat":
        return message.output.tools
    return message.prompt.chat.tools if has_tools(message.prompt.chat) else ()


def read_tools(
    tools: Seq[common_pb2.Tool], field: str, model: ServedModel, found: Violations
) -> list[dict[str, Any]] | None:
    """The tools as chat templates expect them, without invalid schemas; errors are added to `found`."""
    if not tools:
        return None
    if "tools" not in model.chat_template.source:
        found.add(field, "is set, but this model's chat template knows of no tools", "none; or a grammar instead")
    tools = found.within(field, tools, LIMITS.max_tools)
    if (size := sum(tool.ByteSize() for tool in tools)) > LIMITS.max_tools_bytes:
        found.add(field, f"has {size} bytes", f"at most {LIMITS.max_tools_bytes} bytes in all")
        return None
    found.check_entries(
        field, [tool.name for tool in tools], lambda name: bool(_NAME.fullmatch(name)), _described, _NAMES, ".name"
    )
    name, count = Counter(tool.name for tool in tools).most_common(1)[0]
    if count > 1:
        found.add(field, f"has {count} tools named {name[:64]!r}", "each name once")
    return [_read_tool(tool, f"{field}[{index}]", found) for index, tool in enumerate(tools)]


def _described(name: str) -> str:
    return f"is {name[:64]!r}, of {len(name)} characters"


def _read_tool(tool: common_pb2.Tool, field: str, found: Violations) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.HasField("description"):
        function["description"] = tool.description
    try:
        function["parameters"] = schema_of(tool)
    except ValueError as error:
        found.add(f"{field}.parameters", str(error), "the JSON schema of an object")
    return {"type": "function", "function": function}


def schema_of(tool: common_pb2.Tool) -> dict[str, Any]:
    """The schema of a tool's arguments; raises ValueError if it is invalid."""
    if not tool.HasField("parameters"):
        return {"type": "object", "properties": {}, "additionalProperties": False}
    try:
        schema = read_json(tool.parameters)
    except ValueError as error:
        raise ValueError(f"is no JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ValueError(f"is {type(schema).__name__} in JSON")
    if _HALF_PAIR.search(tool.parameters) and not _is_text(schema):
        raise ValueError("has half a surrogate pair")
    if schema.get("type", "object") != "object":
        raise ValueError(f"has type {str(schema['type'])[:64]!r}")
    return schema


def _is_text(schema: object) -> bool:
    try:
        json.dumps(schema, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def check_tool_choice(chat: common_pb2.Chat, field: str, model: ServedModel, found: Violations) -> None:
    """Add a tool choice to `found` if it names no tool of the request, or if the answer cannot be constrained to it."""
    choice, field = chat.tool_choice, f"{field}.tool_choice"
    if choice.mode not in common_pb2.ToolChoiceMode.values():
        found.add(f"{field}.mode", f"is {choice.mode}", ", ".join(common_pb2.ToolChoiceMode.keys()))
    if choice.HasField("tool") and choice.tool not in {tool.name for tool in chat.tools[: LIMITS.max_tools]}:
        found.add(f"{field}.tool", f"is {choice.tool[:64]!r}", "the name of one of the tools")
    if choice.mode == _REQUIRED and not chat.tools:
        found.add(f"{field}.mode", "is TOOL_CHOICE_MODE_REQUIRED, but there are no tools", "another mode, or tools")
    if binds_answer(chat) and model.syntax.tools is None:
        problem = "binds the answer, but this model's chat template shows no syntax of calls that is known"
        found.add(field, problem, "TOOL_CHOICE_MODE_AUTO or _NONE; or a server with --tool-parser")


def binds_answer(chat: common_pb2.Chat) -> bool:
    """Whether a grammar must constrain the answer to the tools' syntax or schemas."""
    if not has_tools(chat):
        return False
    choice = chat.tool_choice
    is_single = choice.HasField("parallel") and not choice.parallel
    return is_single or is_required(choice) or any(tool.strict for tool in chat.tools[: LIMITS.max_tools])


def has_call_grammar(message: GenerationRequest, model: ServedModel) -> bool:
    """Whether a grammar constrains the calls in the answer to a conversation: of bound tools, or of any beside a form.

    A grammar in Lark is no such form: it may have calls of its own.
    """
    chat, kind = message.prompt.chat, message.grammar.WhichOneof("kind")
    has_both = kind is not None and kind != "lark" and has_tools(chat) and model.syntax.tools is not None
    return has_both or binds_answer(chat)


def is_required(choice: common_pb2.ToolChoice) -> bool:
    """Whether the answer must call a tool."""
    return choice.HasField("tool") or choice.mode == _REQUIRED
