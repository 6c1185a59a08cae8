"""Bound: answers that are bound to tools, in the syntax of a family."""

import json
from collections.abc import Sequence as Seq
from functools import cache

import numpy as np

from services.engine.grammar.bounds import check_bounds
from services.engine.grammar.compiler import GrammarCompiler
from services.engine.grammar.source import GrammarSource
from services.engine.text.tokenizer import Tokenizer
from services.target.message.argument_types import ArgumentTypes
from services.target.message.channel_parser import ChannelParser
from services.target.message.deltas import Delta
from services.target.message.message_parser import MessageParser
from services.target.message.syntax import CHANNEL_MARKS, TOOL_SYNTAXES, MessageSyntax, ToolSyntax
from services.target.message.thought import PromptThought
from services.target.message.tool_grammar import BoundTool, CallRule, tool_grammar
from tests.harness.models.checkpoints import byte_level_tokenizer
from tests.unit.target.message.families import reasoning_of, written_call
from tests.unit.target.message.parts import parts_of

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 9}, "unit": {"enum": ["c", "f"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [BoundTool("get_weather", SCHEMA), BoundTool("now", None)]
WEATHER, NOW = ("get_weather", '{"city": "Paris", "unit": "c"}'), ("now", '{"any": [1]}')
WRONG, UNKNOWN = ("get_weather", '{"town": 1}'), ("other", "{}")
MARKS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]  # tokens, as in most vocabularies
OF_GEMMA = ["<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>', "<tool_response|>"]
CONTROLS = [*OF_GEMMA, "[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]", *CHANNEL_MARKS]
END = 0


@cache
def tokenizer() -> Tokenizer:
    library = byte_level_tokenizer().from_str(byte_level_tokenizer().to_str())
    library.add_tokens(MARKS)
    library.add_special_tokens(CONTROLS)
    return Tokenizer(library.to_str())


@cache
def compiler() -> GrammarCompiler:
    return GrammarCompiler(tokenizer(), vocab_size=tokenizer().vocab_size)


class Bound:
    """Answers of one family under one rule."""

    def __init__(
        self,
        family: str,
        thought: PromptThought,
        *,
        is_required: bool,
        is_parallel: bool = True,
        tools: Seq[BoundTool] = TOOLS,
        form: GrammarSource | None = None,
        own: Tokenizer | None = None,
    ) -> None:
        """`own` is a tokenizer with other marks than most."""
        reasoning = reasoning_of(family)
        self.family = family
        self.tools: ToolSyntax = TOOL_SYNTAXES[family]
        self._tokenizer = own or tokenizer()
        self.syntax = MessageSyntax.find("", self._tokenizer, tool_parser=family, reasoning_parser=reasoning)
        self.is_thinking = thought is PromptThought.OPEN
        rule = CallRule(tools=tools, is_required=is_required, is_parallel=is_parallel, form=form)
        source = tool_grammar(rule, self.tools, self.syntax, thought, most_bytes=1 << 20)
        check_bounds(source)
        own_compiler = own and GrammarCompiler(own, vocab_size=own.vocab_size)
        self._grammar = (own_compiler or compiler()).compile(source)

    def calls(self, *calls: tuple[str, str]) -> str:
        written = (written_call(self.family, name, json.loads(arguments)) for name, arguments in calls)
        return self.tools.opening + (self.tools.between or "").join(written) + self.tools.closing

    def says(self, text: str) -> str:
        """An answer without calls."""
        assert self.syntax.reasoning is not None
        return self.syntax.reasoning.answer + text

    def allows(self, text: str) -> bool:
        """Whether an answer may be the text, as a whole."""
        state = self._grammar.begin(stop_ids=[END])
        for token_id in [*self._tokenizer.encode(text, add_special_tokens=False), END]:
            (mask,) = state.masks()
            if not np.unpackbits(mask.view(np.uint8), bitorder="little")[token_id]:
                return False
            if token_id != END:
                state.advance([token_id])
        return True

    def parts(self, text: str) -> list[Delta]:
        types = ArgumentTypes({tool.name: tool.schema or {} for tool in TOOLS})
        parser: MessageParser | ChannelParser = MessageParser(self.syntax, types, is_thinking=self.is_thinking)
        if self.syntax.has_channels:
            parser = ChannelParser(PromptThought.NONE, types)
        return parts_of(parser.feed(text) + parser.finish())
