"""Good and bad values for the fields of conversations, and what shows that a good one has its effect."""

import json
from typing import Any

from outrider.v1 import common_pb2
from tests.harness.models.checkpoints import byte_level_tokenizer
from tests.rpc.harness.field_examples import Fields, Good, Seen

NONE = common_pb2.TOOL_CHOICE_MODE_NONE
REQUIRED = common_pb2.TOOL_CHOICE_MODE_REQUIRED
SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": [1, 2]}},
    "required": ["a"],
    "additionalProperties": False,
}
F = {"name": "f", "description": "Does it.", "parameters": json.dumps(SCHEMA)}
G = {"name": "g"}
_CITY = {"type": "string", "pattern": "^[A-Z][a-z]{2,5}$"}
USE_CITY = {
    "name": "use_city",
    "parameters": json.dumps({**SCHEMA, "properties": {"city": _CITY, "days": {"enum": [1, 2]}}, "required": ["city"]}),
}
USER = {"role": "user", "content": "a"}
CALL = {"id": "c1", "name": "f", "arguments": '{"a": 7}'}
CALLED = {"role": "called", "tool_calls": [CALL]}


def chat(*messages: Fields, **fields: Any) -> Fields:
    """A conversation whose prompt is sent back, and whose answer is read as a message."""
    return {
        "prompt": {"chat": {"messages": messages or (USER,), **fields}},
        "output": {"prompt_token_ids": True, "message_deltas": True},
    }


def prompt_of(seen: Seen) -> str:
    """The text of the prompt."""
    ids = [*seen.streamed.started.prompt_token_ids]
    return str(byte_level_tokenizer().decode(ids, skip_special_tokens=False))


def calls_of(seen: Seen) -> list[tuple[str, bool]]:
    """The names of the calls, and whether their arguments follow the schema."""
    deltas = [delta for chunk in seen.streamed.chunks for delta in chunk.message_deltas]
    deltas += seen.streamed.finished.message_deltas
    streamed = [delta.tool_call for delta in deltas if delta.HasField("tool_call")]
    assert streamed == [*seen.whole.message.tool_calls]
    return [(call.name, json.loads(call.arguments).get("a") in (1, 2)) for call in streamed]


def has(text: str, fields: Fields) -> Good:
    """Fields that bring a text into the prompt."""
    return Good(fields, lambda seen: text in prompt_of(seen))


_ROOM: Fields = {"stop": {"max_tokens": 200}}  # for a call
_REQUIRED: Fields = {"tools": [F], "tool_choice": {"mode": REQUIRED, "parallel": False}}
GOOD_CHATS = {
    "prompt.chat.messages.parts.text": has(
        "<|user|>first\nsecond<|end|>", chat({"role": "user", "parts": [{"text": "first"}, {"text": "second"}]})
    ),
    "prompt.chat.messages.tool_calls.id": has("c1<tool_call>", chat(CALLED)),
    "prompt.chat.messages.tool_calls.name": has('{"name": "f"', chat(CALLED)),
    "prompt.chat.messages.tool_calls.arguments": has('"arguments": {"a": 7}}', chat(CALLED)),
    "prompt.chat.messages.tool_call_id": has("c1a<|end|>", chat({**USER, "tool_call_id": "c1"})),
    "prompt.chat.messages.name": has("<|user|>Annea<|end|>", chat({**USER, "name": "Anne"})),
    "prompt.chat.messages.reasoning_content": has(
        "<|user|>(so)a", chat({**USER, "reasoning_content": "so"}, template_variables='{"enable_thinking": true}')
    ),
    "prompt.chat.template_variables": has(
        "(so)", chat({**USER, "reasoning_content": "so"}, template_variables='{"enable_thinking": 1}')
    ),
    "prompt.chat.tools.name": has('"name": "f"', chat(tools=[F])),
    "prompt.chat.tools.description": has('"description": "Does it."', chat(tools=[F])),
    "prompt.chat.tools.parameters": has('"enum": [1, 2]', chat(tools=[F])),
    "prompt.chat.tools.strict": Good(
        chat(tools=[{**F, "strict": True}]), lambda seen: "[1, 2]" in seen.streamed.started.grammar.lark
    ),
    "prompt.chat.tool_choice.mode": Good(
        {**chat(**_REQUIRED), "stop": {"max_tokens": 200, "max_thinking_tokens": 0}},
        lambda seen: calls_of(seen) == [("f", True)],
    ),
    "prompt.chat.tool_choice.tool": Good(
        {**chat(tools=[G, F, {"name": "h"}], tool_choice={"tool": "f"}), **_ROOM},
        lambda seen: calls_of(seen) == [("f", True)],
    ),
    "prompt.chat.tool_choice.parallel": Good(
        chat(tools=[F], tool_choice={"parallel": False}), lambda seen: seen.streamed.started.HasField("grammar")
    ),
    "prompt.chat.add_generation_prompt": Good(
        chat(add_generation_prompt=False), lambda seen: prompt_of(seen).endswith("a<|end|>")
    ),
    "prompt.chat.continue_final_message": Good(
        chat(USER, {"role": "assistant", "content": "b"}, continue_final_message=True),
        lambda seen: prompt_of(seen).endswith("<|assistant|>b"),
    ),
    "output.message_deltas": Good(
        {**chat(**_REQUIRED), **_ROOM},
        lambda seen: seen.whole.message.role == "assistant" and not seen.whole.message.content,
    ),
}


def bad(fields: Fields, path: str, said: str) -> tuple[Fields, str, str]:
    return {"prompt": fields["prompt"]}, f"prompt.chat.{path}", said


BAD_CHATS = {
    "max_thinking_tokens below 0": ({"stop": {"max_thinking_tokens": -1}}, "stop.max_thinking_tokens", "is -1"),
    "a budget for thoughts of a model that has none": (
        {"stop": {"max_thinking_tokens": 5}},
        "stop.max_thinking_tokens",
        "no marks of thoughts that are known; allowed: not to be set; or a server with --reasoning-parser",
    ),
    "no messages": ({"prompt": {"chat": {}}}, "prompt.chat.messages", "at least one message"),
    "refused chat": bad(
        chat({"role": "assistant", "content": "a"}), "messages", "the first message cannot be the assistant's"
    ),
    "parts and content": bad(chat({**USER, "parts": [{"text": "b"}]}), "messages[0].parts", "beside content"),
    "a part of no kind": bad(chat({"role": "user", "parts": [{}]}), "messages[0].parts[0]", "of no kind"),
    "a call of nothing": bad(
        chat({"role": "called", "tool_calls": [{"arguments": "{}"}]}), "messages[0].tool_calls[0].name", "is empty"
    ),
    "a tool with a strange name": bad(chat(tools=[F, {"name": 'x"y'}]), "tools[1].name", "allowed: 1 to 64 of A-Z"),
    "a tool twice": bad(chat(tools=[F, G, F]), "tools", "has 2 tools named 'f'; allowed: each name once"),
    "too many tools": bad(
        chat(tools=[{"name": f"t{number}"} for number in range(129)]), "tools", "has 129 entries; allowed: at most 128"
    ),
    "a schema that is no JSON": bad(
        chat(tools=[G, F, {"name": "h", "parameters": "{"}]), "tools[2].parameters", "is no JSON"
    ),
    "a schema nested too deeply": bad(
        chat(tools=[{"name": "h", "parameters": "[" * 1100}]), "tools[0].parameters", "is no JSON"
    ),
    "a schema with half a surrogate pair": bad(
        chat(tools=[{"name": "h", "parameters": '{"properties": {"\\ud800": {}}}'}]), "tools[0].parameters", "surrogate"
    ),
    "a schema of no object": bad(
        chat(tools=[{"name": "h", "parameters": '{"type": "array"}'}]), "tools[0].parameters", "has type 'array'"
    ),
    "a schema that nothing follows": bad(
        chat(tools=[{"name": "h", "parameters": '{"minProperties": 2, "maxProperties": 1}', "strict": True}]),
        "tools[0].parameters",
        "of 'h' cannot be followed",
    ),
    "an unknown choice": bad(chat(tools=[F], tool_choice={"mode": 9}), "tool_choice.mode", "is 9; allowed: TOOL_"),
    "a choice without tools": bad(chat(tool_choice={"mode": REQUIRED}), "tool_choice.mode", "there are no tools"),
    "a tool that is not there": bad(chat(tools=[F], tool_choice={"tool": "g"}), "tool_choice.tool", "is 'g'"),
    "continued with a generation prompt": bad(
        chat(continue_final_message=True, add_generation_prompt=True),
        "add_generation_prompt",
        "is true; allowed:",
    ),
    "continued behind a call": bad(
        chat(USER, CALLED, continue_final_message=True), "continue_final_message", "the last message has calls"
    ),
    "variables that are none": bad(chat(template_variables="[1]"), "template_variables", "is list in JSON"),
    "variables of ours": bad(
        chat(template_variables='{"messages": []}'),
        "template_variables",
        "names messages; allowed: variables",
    ),
    "a healed message": (
        {"prompt": {"text": "import os ", "heal": True}, "output": {"message_deltas": True}},
        "output.message_deltas",
        "with prompt.heal",
    ),
}
CHAT_TOLD_BY_PARENT = {"prompt.chat.messages.parts.text": "prompt.chat.messages.parts"}
NEVER_BAD_CHATS = {
    **dict.fromkeys(
        ("prompt.chat.tools.strict", "prompt.chat.tool_choice.parallel"), "true and false are both allowed"
    ),
    "prompt.chat.messages.tool_calls.arguments": "arguments that are no object are rendered as an empty one",
    **dict.fromkeys(
        (
            "prompt.chat.messages.tool_calls.id",
            "prompt.chat.messages.tool_call_id",
            "prompt.chat.messages.name",
            "prompt.chat.messages.reasoning_content",
            "prompt.chat.tools.description",
        ),
        "any text may be said",
    ),
}
