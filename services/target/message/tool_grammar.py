"""Tool grammars: constrain an answer to calls in the model family's syntax, with arguments by the tools' schemas."""

import json
import re
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any

from services.engine.grammar.schema import moved_schema
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.target.message.marked_rules import MarkedRules, StringMark, free_marked_rules
from services.target.message.syntax import ARGUMENTS, NAME, MessageSyntax, ToolSyntax
from services.target.message.thought import PromptThought, marks_before_answer
from services.target.message.xml_rules import free_rules, xml_rules

# As models write JSON; with flexible white space an answer could continue with white space forever.
_SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_ANY_TEXT = "TEXT: /(?s:.*)/"
_OBJECT = {"type": "object"}
_FORM = "answer_form"  # the rule of the text that may come instead of calls


@dataclass(frozen=True, slots=True)
class BoundTool:
    """A tool that may be called; without a schema its arguments may be any object."""

    name: str
    schema: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRule:
    """The calls that an answer may have; if none is required, it may have any text before and between them, or, with a
    form, a text of this form instead of calls.
    """

    tools: Seq[BoundTool]
    is_required: bool
    is_parallel: bool
    form: GrammarSource | None = None


def tool_grammar(
    rule: CallRule, tools: ToolSyntax, syntax: MessageSyntax, thought: PromptThought, *, most_bytes: int
) -> GrammarSource:
    """The grammar of an answer, given the state of the reasoning at the end of its prompt.

    Raises ValueError if it is larger than `most_bytes`.
    """
    text = "\n".join(_Lark(rule, tools, syntax, most_bytes).lines())
    marks = marks_before_answer(syntax, thought, is_call=True)
    prefers_end = rule.form is not None and rule.form.prefers_end and not rule.is_required
    return GrammarSource(GrammarKind.LARK, (text,), prefers_end, marks)


def is_with_form(lark: str) -> bool:
    """Whether a grammar is one of calls, or of a text of a form instead."""
    return f"\n{_FORM}:" in lark


class _Lark:
    def __init__(self, rule: CallRule, tools: ToolSyntax, syntax: MessageSyntax, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._rule = rule
        self._tools = tools
        self._mark_ids = syntax.mark_ids
        self._special_ids = syntax.special_ids
        self._answer = syntax.reasoning.answer if syntax.reasoning else ""
        self._string_mark = self._marked(tools.string_mark) if tools.string_mark else None

    def lines(self) -> list[str]:
        return [*self._start(), *self._calls(), _ANY_TEXT]

    def _start(self) -> list[str]:
        opening, closing = self._written(self._tools.opening), self._written(self._tools.closing)
        calls = f"{opening} call {self._further()} {closing}"
        if self._rule.is_required:
            return [f"start: {calls}"]
        if (form := self._rule.form) is not None:
            return [f"start: {self._written(self._answer)} {_FORM} | {calls}", form.as_rule(_FORM)]
        return self._free()

    def _further(self) -> str:
        """Calls after the first one, if there may be any."""
        if not self._rule.is_parallel or self._tools.between is None:
            return ""
        return f"({self._written(self._tools.between)} call)*"

    def _free(self) -> list[str]:
        """Rules for any text in which the mark that begins a call is followed by the rest of a call."""
        if self._answer:
            return [f"start: {self._written(self._answer)} TEXT | call"]
        opening, further = self._tools.opening + self._tools.call, self._further()
        if self._tools.is_bare:
            return [f"start: OTHER | call {further}", r"OTHER: /(\s*[^{\s](?s:.*))?/"]
        mark = next(start for start in self._tools.starts if opening.startswith(start))
        rests = " | ".join(self._call(index, mark) for index in range(len(self._rule.tools)))
        calls = f"(begun rest {further} {self._written(self._tools.closing)})"
        return [
            f"start: {calls}* TEXT" if self._rule.is_parallel else rf"start: TEXT | {calls} /\n?/",
            f"rest: {rests}",
            *self._up_to("begun", mark),
        ]

    def _calls(self) -> list[str]:
        rules = [f"call: {' | '.join(self._call(index) for index in range(len(self._rule.tools)))}"]
        if self._is_json_beside_json:
            return [*rules, *(f"call_{index}: {self._json_call(tool)}" for index, tool in enumerate(self._rule.tools))]
        if self._tools.xml is not None:
            rules += free_rules(self._tools.xml)
        elif self._string_mark is not None:
            rules += free_marked_rules(self._string_mark)
        size = 0
        for index, tool in enumerate(self._rule.tools):
            for line in self._arguments(f"arguments_{index}", tool.schema):
                rules.append(line)
                size += len(line)
                if size > self._most_bytes:  # each line may repeat definitions of the schema
                    raise ValueError(f"their grammar has more than {self._most_bytes} bytes")
        return rules

    def _arguments(self, rule: str, schema: Mapping[str, Any] | None) -> Iterable[str]:
        """The rules of a tool's arguments."""
        if self._tools.xml is not None:
            return xml_rules(rule, schema, self._tools.xml, _SPACING)
        if self._string_mark is not None:
            return MarkedRules(rule, schema, self._string_mark).lines()
        return [f"{rule}: %json {json.dumps({'x-guidance': _SPACING, **_OBJECT, **(schema or {})})}"]

    def _marked(self, mark: str) -> StringMark:
        return StringMark(mark, self._written(mark), self._mark_ids.get(mark) in self._special_ids)

    def _call(self, index: int, mark: str | None = None) -> str:
        """One call; with `mark`, the rest of the first call after this mark."""
        if self._is_json_beside_json:
            return f"call_{index}"
        text = self._tools.call if mark is None else (self._tools.opening + self._tools.call).removeprefix(mark)
        before, _, after = text.replace(NAME, self._rule.tools[index].name).partition(ARGUMENTS)
        return f"{self._written(before)} arguments_{index} {self._written(after)}"

    @property
    def _is_json_beside_json(self) -> bool:
        """Whether calls and the form are objects, which differ in their keys only.

        The library then needs a schema of the whole call: it would read a literal text as far as it equals the form.
        """
        form = self._rule.form
        return form is not None and form.kind is GrammarKind.JSON_SCHEMA and self._tools.call.startswith("{")

    def _json_call(self, tool: BoundTool) -> str:
        fields = json.loads(self._tools.call.replace(NAME, tool.name).replace(ARGUMENTS, "{}"))
        properties: dict[str, object] = {name: {"const": value} for name, value in fields.items()}
        (arguments,) = (name for name, value in fields.items() if value == {})
        schema = {**_OBJECT, **(tool.schema or {})}
        properties[arguments] = moved_schema(schema, f"/properties/{arguments}")
        assert self._rule.form is not None
        whole = {"properties": properties, "required": [*fields], "additionalProperties": False}
        return f"%json {json.dumps({'x-guidance': self._rule.form.spacing, **_OBJECT, **whole})}"

    def _written(self, text: str) -> str:
        """A literal text, in which marks are single tokens."""
        if not text:
            return ""
        marks = "|".join(map(re.escape, self._mark_ids)) or r"(?!)"
        pieces = [piece for piece in re.split(f"({marks})", text) if piece]
        return " ".join(
            f"<[{self._mark_ids[piece]}]>" if piece in self._mark_ids else json.dumps(piece, ensure_ascii=False)
            for piece in pieces
        )

    def _up_to(self, rule: str, mark: str) -> list[str]:
        """A rule for any text up to the first such mark; text never matches a mark that is a control token."""
        if self._mark_ids.get(mark) in self._special_ids:
            return [f"{rule}: TEXT {self._written(mark)}"]
        return [f"{rule}[lazy]: TEXT {json.dumps(mark, ensure_ascii=False)}"]
