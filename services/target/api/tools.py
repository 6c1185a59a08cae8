"""Tools: reads tools from messages, for the chat template and for the grammar that constrains their calls."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence as Seq
from typing import Any

from outrider.v1 import common_pb2, generation_pb2
from services.draft_protocol.grammar import compile_source
from services.engine.grammar.grammar import Grammar
from services.engine.grammar.source import GrammarSource, read_json
from services.service.limits import LIMITS
from services.service.validation import Violations
from services.target.message.thought import thought_of
from services.target.message.tool_grammar import BoundTool, CallRule, tool_grammar
from services.target.models.served_model import ServedModel

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NAMES = "1 to 64 of A-Z, a-z, 0-9, _, - and ."
_NONE = common_pb2.TOOL_CHOICE_MODE_NONE
_REQUIRED = common_pb2.TOOL_CHOICE_MODE_REQUIRED


def has_tools(chat: common_pb2.Chat) -> bool:
    """Whether the prompt describes tools to the model."""
    return bool(chat.tools) and chat.tool_choice.mode != _NONE


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
        function["parameters"] = _schema(tool)
    except ValueError as error:
        found.add(f"{field}.parameters", str(error), "the JSON schema of an object")
    return {"type": "function", "function": function}


def _schema(tool: common_pb2.Tool) -> dict[str, Any]:
    """The schema of a tool's arguments; raises ValueError if it is invalid."""
    if not tool.HasField("parameters"):
        return {"type": "object", "properties": {}, "additionalProperties": False}
    try:
        schema = read_json(tool.parameters)
    except ValueError as error:
        raise ValueError(f"is no JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ValueError(f"is {type(schema).__name__} in JSON")
    if schema.get("type", "object") != "object":
        raise ValueError(f"has type {str(schema['type'])[:64]!r}")
    return schema


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
    return is_single or _is_required(choice) or any(tool.strict for tool in chat.tools[: LIMITS.max_tools])


async def read_tool_grammar(
    message: generation_pb2.StreamGenerateRequest | generation_pb2.GenerateRequest,
    prompt: tuple[int, ...],
    model: ServedModel,
    found: Violations,
    *,
    caller: str,
    num_samples: int,
) -> Grammar | None:
    """The compiled grammar that constrains an answer; None if the request has errors, which are in `found`."""
    if message.HasField("grammar"):
        found.add("grammar", "is set", "not to be, with a prompt.chat.tool_choice that binds the answer")
    if found:
        return None
    field = "prompt.chat.tools"
    try:
        source = await asyncio.to_thread(_bound_grammar, message.prompt.chat, prompt, model)
    except ValueError as error:
        found.add(field, str(error), "schemas that can be followed")
        return None
    return await compile_source(source, field, model.grammars, found, caller=caller, num_samples=num_samples)


def _bound_grammar(chat: common_pb2.Chat, prompt: tuple[int, ...], model: ServedModel) -> GrammarSource:
    """The grammar's source; raises ValueError for schemas that cannot be constrained to."""
    assert model.syntax.tools is not None
    choice = chat.tool_choice
    is_required = _is_required(choice)
    named = choice.HasField("tool")
    rule = CallRule(
        tools=[
            BoundTool(tool.name, _schema(tool) if is_required or tool.strict else None)
            for tool in chat.tools
            if not named or tool.name == choice.tool
        ],
        is_required=is_required,
        is_parallel=not named and (choice.parallel or not choice.HasField("parallel")),
    )
    thought = thought_of(prompt, model.tokenizer, model.syntax)
    try:
        return tool_grammar(rule, model.syntax.tools, model.syntax, thought)
    except RecursionError as error:
        raise ValueError("a schema is nested too deeply") from error


def _is_required(choice: common_pb2.ToolChoice) -> bool:
    return choice.HasField("tool") or choice.mode == _REQUIRED
