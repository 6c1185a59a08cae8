"""Answers of each family, and what they say."""

from typing import NamedTuple

from services.target.message.deltas import Content, Delta, Reasoning, ToolCall
from services.target.message.syntax import REASONING_SYNTAXES, TOOL_SYNTAXES, MessageSyntax


class Answer(NamedTuple):
    """A text in a family's syntax, whether its prompt has begun a thought, and its parts."""

    family: str
    text: str
    parts: list[Delta]
    is_thinking: bool = False


def syntax_of(family: str) -> MessageSyntax:
    """Both of a family's syntaxes, without the tokens of any vocabulary."""
    reasoning = REASONING_SYNTAXES["mistral" if family.startswith("mistral") else "think"]
    return MessageSyntax(TOOL_SYNTAXES.get(family), reasoning, {}, frozenset())


F, G = ToolCall("f", '{"a": 1}'), ToolCall("g.h", "{}")
_DEEPSEEK = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"

ANSWERS = {
    "hermes, all parts": Answer(
        "hermes",
        "<think>\nHm.\n</think>\n\nI look.\n"
        '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\n'
        '<tool_call>\n{"name": "g.h", "arguments": {}}\n</tool_call>\n',
        [Reasoning("Hm."), Content("I look."), F, G],
    ),
    "hermes, marks in strings": Answer(
        "hermes",
        '<tool_call>{"name": "f", "arguments": {"a": "</tool_call>}{\\"\\\\"}}</tool_call>',
        [ToolCall("f", '{"a": "</tool_call>}{\\"\\\\"}')],
    ),
    "hermes, numbers and keys as written": Answer(
        "hermes",
        '<tool_call>{"arguments": {"z": 1e5, "a": 12345678901234567890}, "name": "f"}</tool_call>',
        [ToolCall("f", '{"z": 1e5, "a": 12345678901234567890}')],
    ),
    "hermes, no JSON": Answer("hermes", "a <tool_call>{x</tool_call> b", [Content("a <tool_call>{x</tool_call> b")]),
    "hermes, no name": Answer("hermes", '<tool_call>{"name": 3}', [Content('<tool_call>{"name": 3}')]),
    "hermes, no object": Answer(
        "hermes", '<tool_call>{"name": "f", "arguments": [1]}', [Content('<tool_call>{"name": "f", "arguments": [1]}')]
    ),
    "hermes, null for no arguments": Answer(
        "hermes", '<tool_call>{"name": "g.h", "arguments": null}</tool_call>', [ToolCall("g.h", "{}")]
    ),
    "hermes, nothing for no arguments": Answer(
        "hermes", '<tool_call>{"name": "g.h", "arguments": ""}</tool_call>', [ToolCall("g.h", "{}")]
    ),
    "hermes, cut off": Answer("hermes", 'a <tool_call>{"name": "f', [Content('a <tool_call>{"name": "f')]),
    "hermes, deep": Answer("hermes", "<tool_call>" + "[{" * 5, [Content("<tool_call>" + "[{" * 5)]),
    "words only": Answer("hermes", " <b> a \n\n", [Content(" <b> a \n\n")]),
    "nothing": Answer("hermes", "", []),
    "a thought of the prompt": Answer(
        "none", "\nHm </thin k> \n</think>\n\nYes ", [Reasoning("Hm </thin k>"), Content("Yes ")], True
    ),
    "a thought without end": Answer("none", "Hm ", [Reasoning("Hm ")], True),
    "a mark that is said": Answer("none", "The tag <think> opens", [Content("The tag <think> opens")]),
    "llama, a call": Answer("llama3_json", ' {"name": "f", "parameters": {"a": 1}}', [F]),
    "llama, several": Answer(
        "llama3_json", '<|python_tag|>{"name": "f", "parameters": {"a": 1}}; {"name": "g.h", "parameters": {}}', [F, G]
    ),
    "llama, arguments as text": Answer("llama3_json", '{"name": "f", "parameters": "{\\"a\\": 1}"}', [F]),
    "llama, other JSON": Answer("llama3_json", '{"a": 1} b', [Content('{"a": 1} b')]),
    "llama, JSON later": Answer("llama3_json", 'It is {"name": "f"}', [Content('It is {"name": "f"}')]),
    "mistral, a list": Answer(
        "mistral", 'So:[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, {"name": "g.h"}]', [Content("So:"), F, G]
    ),
    "mistral, named": Answer(
        "mistral_args",
        '[THINK]Hm.[/THINK]So.[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g.h[CALL_ID]x1[ARGS]{}',
        [Reasoning("Hm."), Content("So."), F, G],
    ),
    "deepseek, fenced": Answer(
        "deepseek_v3",
        f'Hm.</think>So.{_DEEPSEEK}function<｜tool▁sep｜>f\n```json\n{{"a": 1}}\n```<｜tool▁call▁end｜>\n'
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g.h\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [Reasoning("Hm."), Content("So."), F, G],
        True,
    ),
    "deepseek, plain": Answer(
        "deepseek_v31",
        f'{_DEEPSEEK}f<｜tool▁sep｜>{{"a": 1}}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g.h<｜tool▁sep｜>{{}}'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [F, G],
    ),
}
