"""Syntax: how model families mark reasoning and tool calls; one table entry for each way."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from services.engine.text.tokenizer import Tokenizer

AUTO, NONE = "auto", "none"
NAME, ARGUMENTS = "\0name", "\0arguments"  # placeholders in the text of a call


@dataclass(frozen=True, slots=True)
class ReasoningSyntax:
    """Reasoning is between two marks; the prompt may end with the first one."""

    start: str
    end: str

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks, which are no text of the message."""
        return (self.start, self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSyntax:
    """An answer's calls are JSON between two marks, or after one.

    `header` matches the text between one of `starts` and the JSON; if it has a group `name`, the JSON is only the
    arguments. `ends` are marks that may follow a call. A grammar writes calls as `opening`, one `call` after the other
    with `between` in between, and `closing`.
    """

    starts: tuple[str, ...]
    is_bare: bool = False  # whether a call may begin with its JSON at the start of a message or after another call
    header: re.Pattern[str] = re.compile(r"\s*")
    ends: tuple[str, ...] = ()
    opening: str = ""
    call: str
    between: str = ""
    closing: str = ""

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks, which are no text of the message, and may be single tokens."""
        written = re.findall(r"<[^<>\s]+>|\[[A-Z_]+\]", self.opening + self.call + self.closing)
        return tuple(dict.fromkeys([*self.starts, *written]))


_JSON_CALL = f'{{"name": "{NAME}", "arguments": {ARGUMENTS}}}'
_DEEPSEEK_ENDS = ("```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>")

TOOL_SYNTAXES = {
    "hermes": ToolSyntax(
        starts=("<tool_call>",),
        ends=("</tool_call>",),
        call=f"<tool_call>\n{_JSON_CALL}\n</tool_call>",
        between="\n",
    ),
    "llama3_json": ToolSyntax(
        starts=("<|python_tag|>",),
        is_bare=True,
        ends=(";",),
        call=f'{{"name": "{NAME}", "parameters": {ARGUMENTS}}}',
        between="; ",
    ),
    "mistral": ToolSyntax(
        starts=("[TOOL_CALLS]",), opening="[TOOL_CALLS][", call=_JSON_CALL, between=", ", closing="]"
    ),
    "mistral_args": ToolSyntax(
        starts=("[TOOL_CALLS]",),
        header=re.compile(r"\s*(?:(?P<name>[\w.-]+)\s*(?:\[CALL_ID\]\w*)?\s*(?:\[ARGS\])?\s*)?"),
        call=f"[TOOL_CALLS]{NAME}[ARGS]{ARGUMENTS}",
    ),
    "deepseek_v3": ToolSyntax(
        starts=("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
        header=re.compile(r"\s*(?:<｜tool▁call▁begin｜>)?\s*function<｜tool▁sep｜>(?P<name>[\w.-]+)\s*```json\s*"),
        ends=_DEEPSEEK_ENDS,
        opening="<｜tool▁calls▁begin｜>",
        call=f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{NAME}\n```json\n{ARGUMENTS}\n```<｜tool▁call▁end｜>",
        between="\n",
        closing="<｜tool▁calls▁end｜>",
    ),
    "deepseek_v31": ToolSyntax(
        starts=("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
        header=re.compile(r"\s*(?:<｜tool▁call▁begin｜>)?\s*(?P<name>[\w.-]+)<｜tool▁sep｜>\s*"),
        ends=_DEEPSEEK_ENDS[1:],
        opening="<｜tool▁calls▁begin｜>",
        call=f"<｜tool▁call▁begin｜>{NAME}<｜tool▁sep｜>{ARGUMENTS}<｜tool▁call▁end｜>",
        closing="<｜tool▁calls▁end｜>",
    ),
}
REASONING_SYNTAXES = {
    "think": ReasoningSyntax("<think>", "</think>"),
    "mistral": ReasoningSyntax("[THINK]", "[/THINK]"),
}
# For each syntax, strings that a template has and strings that it must not have; the first match is used.
_TOOL_SIGNS = (
    ("hermes", ("<tool_call>", "arguments"), ("<function=", "<arg_key>")),
    ("mistral_args", ("[TOOL_CALLS]", "[ARGS]"), ()),
    ("mistral", ("[TOOL_CALLS]",), ()),
    ("deepseek_v3", ("<｜tool▁call▁begin｜>", "```json"), ()),
    ("deepseek_v31", ("<｜tool▁call▁begin｜>",), ()),
    ("llama3_json", ("<|python_tag|>",), ()),
    ("llama3_json", ('"parameters": dictionary of argument name',), ()),
)
_REASONING_SIGNS = (("think", "</think>"), ("mistral", "[/THINK]"))


@dataclass(frozen=True, slots=True)
class MessageSyntax:
    """The syntax of one model; the ids of marks that are single tokens, and of those that are control tokens."""

    tools: ToolSyntax | None
    reasoning: ReasoningSyntax | None
    mark_ids: Mapping[str, int]
    special_ids: frozenset[int]
    names: tuple[str, str] = (NONE, NONE)
    """The names of the table entries, for tools and for reasoning."""

    @classmethod
    def find(cls, template: str, tokenizer: Tokenizer, *, tool_parser: str, reasoning_parser: str) -> "MessageSyntax":
        """The syntax of the named table entries; AUTO finds them by the chat template's text, NONE is no syntax."""
        if tool_parser == AUTO:
            tool_parser = next(_tools_of(template), NONE)
        if reasoning_parser == AUTO:
            reasoning_parser = next((name for name, sign in _REASONING_SIGNS if sign in template), NONE)
        tools, reasoning = TOOL_SYNTAXES.get(tool_parser), REASONING_SYNTAXES.get(reasoning_parser)
        marks = [*(tools.marks if tools else ()), *(reasoning.marks if reasoning else ())]
        ids = {mark: tokenizer.encode(mark, add_special_tokens=False) for mark in marks}
        mark_ids = {mark: found[0] for mark, found in ids.items() if _is_token(found, mark, tokenizer)}
        special_ids = frozenset(filter(tokenizer.is_special, mark_ids.values()))
        return cls(tools, reasoning, mark_ids, special_ids, (tool_parser, reasoning_parser))


def _tools_of(template: str) -> Iterator[str]:
    for name, signs, others in _TOOL_SIGNS:
        if all(sign in template for sign in signs) and not any(other in template for other in others):
            yield name


def _is_token(ids: list[int], mark: str, tokenizer: Tokenizer) -> bool:
    return len(ids) == 1 and tokenizer.token_text(ids[0]) == mark
