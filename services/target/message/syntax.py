"""Syntax: how model families mark reasoning and tool calls; one table entry for each way."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from services.engine.text.tokenizer import Tokenizer
from services.target.message.xml_form import XmlForm

AUTO, NONE = "auto", "none"
_CONTROL = r"<\|\w+\|?>|<\w+\|>"
NAME, ARGUMENTS = "\0name", "\0arguments"  # placeholders in the text of a call


@dataclass(frozen=True, slots=True)
class ReasoningSyntax:
    """Reasoning is between two marks; the prompt may end with the first one."""

    start: str
    end: str
    after: str = ""  # written after the end mark, before anything else
    answer: str = ""  # written before an answer that is no call
    again: str = ""  # a mark in a prompt after which the model may begin to think again

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks, which are no text of the message, and may be single tokens."""
        return tuple(re.findall(_CONTROL, self.start + self.end)) or (self.start, self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSyntax:
    """An answer's calls are JSON, of a form in XML, or such that `string_mark` stands around their strings and their
    keys are bare; they are between two marks, or after one.

    `header` matches the text between one of `starts` and the JSON; if it has a group `name`, the JSON is only the
    arguments. `ends` are marks that may follow a call. A grammar writes calls as `opening`, one `call` after the other
    with `between` in between, and `closing`; if `between` is None, an answer has one call.
    """

    starts: tuple[str, ...]
    is_bare: bool = False  # whether a call may begin with its JSON at the start of a message or after another call
    header: re.Pattern[str] = re.compile(r"\s*")
    xml: XmlForm | None = None
    string_mark: str = ""
    has_several: bool = False  # whether several calls may come before an end mark
    ends: tuple[str, ...] = ()
    opening: str = ""
    call: str
    between: str | None = ""
    closing: str = ""

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks, which are no text of the message, and may be single tokens."""
        written = re.findall(r"<[^<>\s]+>|\[[A-Z_]+\]", self.opening + self.call + self.closing)
        return tuple(dict.fromkeys([*self.starts, *written, *([self.string_mark] if self.string_mark else [])]))


CHANNEL_MARKS = ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>", "<|constrain|>")
_JSON_CALL = f'{{"name": "{NAME}", "arguments": {ARGUMENTS}}}'
_DEEPSEEK_ENDS = ("```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>")


def _functions_in_xml(start: str, end: str, newline: str) -> ToolSyntax:
    """Calls such as <function=NAME><parameter=KEY>VALUE</parameter></function>, with newlines around each value."""
    form = XmlForm(
        name=re.compile(r"<function=(?P<name>[^<>\s]+)>"),
        before_name="<function=",
        argument=re.compile(r"<parameter=(?P<key>[^<>]+)>"),
        value_end="</parameter>",
        end="</function>",
        before_key="<parameter=",
        after_key=f">{newline}",
        after_value=f"{newline}</parameter>\n",
    )
    call = f"{start}\n<function={NAME}>\n{ARGUMENTS}</function>\n{end}"
    return ToolSyntax(starts=(start,), ends=(end,), xml=form, call=call, between="\n")


TOOL_SYNTAXES = {
    "hermes": ToolSyntax(
        starts=("<tool_call>",),
        ends=("</tool_call>",),
        call=f"<tool_call>\n{_JSON_CALL}\n</tool_call>",
        between="\n",
        has_several=True,
    ),
    "qwen3_coder": _functions_in_xml("<tool_call>", "</tool_call>", newline="\n"),
    "seed_oss": _functions_in_xml("<seed:tool_call>", "</seed:tool_call>", newline=""),
    "glm": ToolSyntax(
        starts=("<tool_call>",),
        xml=XmlForm(
            name=re.compile(r"(?P<name>[^<>\s]+)(?=\s*<)"),
            before_name="",
            other=re.compile(r"[^<>\s]+(\s+[^<\s]|>)"),
            argument=re.compile(r"<arg_key>(?P<key>[^<>]*)</arg_key>\s*<arg_value>"),
            value_end="</arg_value>",
            end="</tool_call>",
            before_key="<arg_key>",
            after_key="</arg_key>\n<arg_value>",
            after_value="</arg_value>\n",
        ),
        call=f"<tool_call>{NAME}\n{ARGUMENTS}</tool_call>",
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
        header=re.compile(r"\s*(?:(?P<name>[\w.-]+)(?:\s*\[CALL_ID\]\w*)?(?:\s*\[ARGS\])?\s*)?"),
        call=f"[TOOL_CALLS]{NAME}[ARGS]{ARGUMENTS}",
    ),
    "harmony": ToolSyntax(
        starts=CHANNEL_MARKS,
        is_bare=True,
        call=f"<|channel|>commentary to=functions.{NAME} <|constrain|>json<|message|>{ARGUMENTS}",
        between=None,
    ),
    "gemma4": ToolSyntax(
        starts=("<|tool_call>",),
        string_mark='<|"|>',
        ends=("<tool_call|>", "<|tool_response>"),
        call=f"<|tool_call>call:{NAME}{ARGUMENTS}<tool_call|>",
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
    "seed": ReasoningSyntax("<seed:think>", "</seed:think>"),
    "mistral": ReasoningSyntax("[THINK]", "[/THINK]"),
    "harmony": ReasoningSyntax(
        "<|channel|>analysis<|message|>",
        "<|end|>",
        after="<|start|>assistant",
        answer="<|channel|>final<|message|>",
    ),
    "gemma4": ReasoningSyntax("<|channel>thought", "<channel|>", again="<tool_response|>"),
}
# For each syntax, strings that a template has; the first match is used.
_TOOL_SIGNS = (
    ("harmony", ("<|channel|>", "functions.")),
    ("gemma4", ("<|tool_call>", '<|"|>')),
    ("seed_oss", ("<seed:tool_call>",)),
    ("qwen3_coder", ("<tool_call>", "<function=")),
    ("glm", ("<tool_call>", "<arg_key>")),
    ("hermes", ("<tool_call>", "arguments")),
    ("mistral_args", ("[TOOL_CALLS]", "[ARGS]")),
    ("mistral", ("[TOOL_CALLS]",)),
    ("deepseek_v3", ("<｜tool▁call▁begin｜>", "```json")),
    ("deepseek_v31", ("<｜tool▁call▁begin｜>",)),
    ("llama3_json", ("<|python_tag|>",)),
    ("llama3_json", ('"parameters": dictionary of argument name',)),
)
_REASONING_SIGNS = (
    ("harmony", "<|channel|>analysis"),
    ("gemma4", "<|channel>"),
    ("seed", "</seed:think>"),
    ("think", "</think>"),
    ("mistral", "[/THINK]"),
)


@dataclass(frozen=True, slots=True)
class MessageSyntax:
    """The syntax of one model; the ids of marks that are single tokens, and of those that are control tokens."""

    tools: ToolSyntax | None
    reasoning: ReasoningSyntax | None
    mark_ids: Mapping[str, int]
    special_ids: frozenset[int]
    names: tuple[str, str] = (NONE, NONE)
    """The names of the table entries, for tools and for reasoning."""

    @property
    def has_channels(self) -> bool:
        """Whether an answer is a sequence of messages in channels, as those of gpt-oss."""
        return any(part is not None and "<|channel|>" in part.marks for part in (self.tools, self.reasoning))

    def without_tools(self) -> "MessageSyntax":
        """The syntax of an answer that makes no calls, in which their marks are like any other tokens."""
        kept = (
            {mark: self.mark_ids[mark] for mark in self.reasoning.marks if mark in self.mark_ids}
            if self.reasoning
            else {}
        )
        return replace(self, tools=None, mark_ids=kept, special_ids=self.special_ids & {*kept.values()})

    @classmethod
    def find(cls, template: str, tokenizer: Tokenizer, *, tool_parser: str, reasoning_parser: str) -> "MessageSyntax":
        """The syntax of the named table entries; AUTO finds them by the chat template's text, NONE is no syntax."""
        if tool_parser == AUTO:
            tool_parser = next(_tools_of(template), NONE)
        if reasoning_parser == AUTO:
            reasoning_parser = next((name for name, sign in _REASONING_SIGNS if sign in template), NONE)
        tools, reasoning = TOOL_SYNTAXES.get(tool_parser), REASONING_SYNTAXES.get(reasoning_parser)
        marks = [*(tools.marks if tools else ()), *(reasoning.marks if reasoning else ())]
        mark_ids = {mark: token_id for mark in marks if (token_id := tokenizer.id_of(mark)) is not None}
        special_ids = frozenset(filter(tokenizer.is_special, mark_ids.values()))
        return cls(tools, reasoning, mark_ids, special_ids, (tool_parser, reasoning_parser))


def _tools_of(template: str) -> Iterator[str]:
    for name, signs in _TOOL_SIGNS:
        if all(sign in template for sign in signs):
            yield name
