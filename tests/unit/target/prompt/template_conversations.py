"""Conversations that every family's chat template is tried on."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from services.target.prompt.chat_renderer import make_renderer

_FOLDER = Path(__file__).parent / "templates"
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
_TODAY = "{%- macro strftime_now(pattern) -%}26 Jul 2024{%- endmacro -%}"  # each expected text would have its own date

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a <city>, today.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Its name."},
                "unit": {"type": "string", "enum": ["°C", "°F"]},
                "days": {"type": "integer", "default": 1},
            },
            "required": ["city"],
        },
    },
}
CLOCK = {
    "type": "function",
    "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}},
}


def said(role: str, content: object, **fields: Any) -> dict[str, Any]:
    """One message of a conversation."""
    return {"role": role, "content": content, **fields}


def called(*calls: tuple[str, dict[str, Any]], content: str = "", **fields: Any) -> dict[str, Any]:
    """A message of calls."""
    entries = [
        {"id": f"call{number:05}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(calls)
    ]
    return {"role": "assistant", "content": content, **fields, "tool_calls": entries}


SYSTEM, USER, ANSWER = (
    said("system", " Be brief. "),
    said("user", "Größe von <Paris>? "),
    said("assistant", " 105 km²\n"),
)
PARIS = ("get_weather", {"city": "Paris", "days": 2})
RESULT = said("tool", '{"sky": "klar"}', tool_call_id="call00000", name="get_weather")
PARTS = [{"type": "text", "text": "One. "}, {"type": "text", "text": " Two."}]

CONVERSATIONS: dict[str, dict[str, Any]] = {
    "a question": {"messages": [USER]},
    "a system's word first": {"messages": [SYSTEM, USER]},
    "several turns": {"messages": [SYSTEM, USER, ANSWER, said("user", "And Rome?")]},
    "no generation prompt": {"messages": [USER, ANSWER], "add_generation_prompt": False},
    "goes on with the last message": {
        "messages": [USER, said("assistant", "It has ")],
        "add_generation_prompt": False,
        "continue_final_message": True,
    },
    "without thoughts": {"messages": [USER], "variables": {"enable_thinking": False, "thinking": False}},
    "with thoughts": {"messages": [USER], "variables": {"enable_thinking": True, "thinking": True}},
    "a thought before": {"messages": [USER, {**ANSWER, "reasoning_content": "Hm. "}, said("user", "Sure?")]},
    "parts": {"messages": [said("user", PARTS)]},
    "tools": {"messages": [SYSTEM, USER], "tools": [WEATHER, CLOCK]},
    "a call and its result": {"messages": [USER, called(PARIS), RESULT], "tools": [WEATHER]},
    "a call among words": {
        "messages": [USER, called(PARIS, content="I look."), RESULT, ANSWER, said("user", "Thanks.")],
        "tools": [WEATHER, CLOCK],
    },
    "two calls": {
        "messages": [USER, called(PARIS, ("now", {})), RESULT, said("tool", "12:00", tool_call_id="call00001")],
        "tools": [WEATHER, CLOCK],
    },
}


def template_of(name: str) -> str:
    """The text of a family's template, in which it is always the same day."""
    text = _templates()[name].read_text()
    return _TODAY + text if "strftime_now" in text else text


@cache
def renderer(name: str) -> Callable[[dict[str, Any]], dict[str, str]]:
    """A function that renders conversations with a family's template, in this process."""
    return make_renderer({"sources": {"default": template_of(name)}, "special_tokens": SPECIAL_TOKENS})


def families() -> Iterator[str]:
    """The names of all templates."""
    yield from _templates()


def expectations_of(name: str) -> Path:
    """The file of what transformers renders with a family's template, by conversation."""
    return _templates()[name].with_name(f"{name}.json")


def _templates() -> dict[str, Path]:
    return {path.name.removesuffix(".jinja"): path for path in sorted(_FOLDER.rglob("*.jinja"))}
