"""CallGrammar: tries the grammar of an answer that may call tools, and finds the tools whose schemas prevent it."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace

from outrider.v1 import common_pb2
from services.engine.grammar.compiler import GrammarError
from services.engine.grammar.source import GrammarSource
from services.engine.grammar.trial import GrammarTrial
from services.service.limits import LIMITS
from services.service.validation import Violations
from services.target.api.chat import is_required, schema_of
from services.target.message.thought import thought_of
from services.target.message.tool_grammar import BoundTool, CallRule, tool_grammar
from services.target.models.served_model import ServedModel

logger = logging.getLogger(__name__)

_MAX_SEARCH = 10.0  # seconds to find the tools that cannot be followed; each compilation may take two


class CallGrammar:
    """The grammar of an answer to a conversation with tools, and with a form if it has one.

    Of a tool that is not strict, a schema that cannot be followed does not refuse the request: its arguments may be
    any object.
    """

    def __init__(
        self,
        chat: common_pb2.Chat,
        form: GrammarSource | None,
        prompt: tuple[int, ...],
        model: ServedModel,
        *,
        has_own_marks: bool,
        caller: str,
        num_samples: int,
    ) -> None:
        """Without a form, the answer may have any text unless a call is required.

        With `has_own_marks` the reasoning has the marks of the form, or no place if that has none.
        """
        self._chat = chat
        self._form = form
        self._prompt = prompt
        self._model = model
        self._has_own_marks = has_own_marks
        self._caller = caller
        self._num_samples = num_samples
        self._strict_faults: dict[int, str] = {}  # by the numbers of the tools

    async def try_out(self) -> GrammarTrial:
        """Return the grammar that has passed; raises GrammarError if it cannot be followed."""
        tools = self._tools()
        try:
            return await self._tried(tools, self._form, self._num_samples)
        except GrammarError:
            faults = await self._faults(tools)
            self._strict_faults = {index: fault for index, fault in faults.items() if self._chat.tools[index].strict}
            if not faults or self._strict_faults:
                raise
        for index, fault in faults.items():
            name = self._chat.tools[index].name
            logger.warning("tool %s may have any arguments: its schema cannot be followed: %s", name, fault)
            tools[index] = BoundTool(name, None)
        return await self._tried(tools, self._form, self._num_samples)

    def add_faults(self, found: Violations) -> bool:
        """Add the strict tools that are to blame to `found`; returns whether there are any."""
        for index, fault in self._strict_faults.items():
            problem = f"of {self._chat.tools[index].name!r} cannot be followed: {fault}"
            found.add(f"prompt.chat.tools[{index}].parameters", problem, "what llguidance understands")
        return bool(self._strict_faults)

    def _tools(self) -> dict[int, BoundTool]:
        """The tools that may be called, by their numbers."""
        choice = self._chat.tool_choice
        required, named = is_required(choice), choice.HasField("tool")
        return {
            index: BoundTool(tool.name, schema_of(tool) if required or tool.strict else None)
            for index, tool in enumerate(self._chat.tools)
            if not named or tool.name == choice.tool
        }

    async def _faults(self, tools: Mapping[int, BoundTool]) -> dict[int, str]:
        """What is wrong with the schemas of tools that cannot be followed even alone, as far as there is time."""
        faults: dict[int, str] = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_SEARCH):
                for index, tool in tools.items():
                    if tool.schema is not None and (fault := await self._fault({index: tool})):
                        faults[index] = fault
        return faults

    async def _fault(self, tools: Mapping[int, BoundTool]) -> str:
        """Why tools cannot be bound without a form; "" if they can."""
        try:
            await self._tried(tools, None, num_samples=1)
        except GrammarError as error:
            return str(error)
        return ""

    async def _tried(
        self, tools: Mapping[int, BoundTool], form: GrammarSource | None, num_samples: int
    ) -> GrammarTrial:
        try:
            source = await asyncio.to_thread(self._source, tools, form)
        except RecursionError as error:
            raise GrammarError("a schema is nested too deeply") from error
        except ValueError as error:
            raise GrammarError(str(error)) from error
        if (size := source.num_bytes) > LIMITS.max_grammar_bytes:
            raise GrammarError(f"it has {size} bytes; at most {LIMITS.max_grammar_bytes} are allowed")
        return await self._model.grammars.try_out(source, self._caller, num_states=num_samples)

    def _source(self, tools: Mapping[int, BoundTool], form: GrammarSource | None) -> GrammarSource:
        syntax, choice = self._model.syntax, self._chat.tool_choice
        assert syntax.tools is not None
        is_parallel = not choice.HasField("tool") and (choice.parallel or not choice.HasField("parallel"))
        rule = CallRule(tools=[*tools.values()], is_required=is_required(choice), is_parallel=is_parallel, form=form)
        thought = thought_of(self._prompt, self._model.tokenizer, syntax)
        source = tool_grammar(rule, syntax.tools, syntax, thought, most_bytes=LIMITS.max_grammar_bytes)
        return replace(source, reasoning=form.reasoning) if form is not None and self._has_own_marks else source
