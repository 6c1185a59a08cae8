"""Grammar: reads and compiles the grammar that constrains an answer, be it the request's or that of its tools."""

import asyncio
from dataclasses import replace

from outrider.v1 import common_pb2
from services.draft_protocol.conversions import read_source
from services.engine.grammar.compiler import GrammarError
from services.engine.grammar.grammar import Grammar
from services.engine.grammar.process import GrammarProcess
from services.engine.grammar.source import GrammarSource
from services.service.limits import LIMITS
from services.service.validation import Violations
from services.target.api.chat import is_required, schema_of
from services.target.api.request_messages import GenerationRequest
from services.target.message.thought import marks_before_answer, thought_of
from services.target.message.tool_grammar import BoundTool, CallRule, tool_grammar
from services.target.models.served_model import ServedModel

_MOST_MARK_BYTES = 64
_KINDS = ("json_schema", "regex", "lark", "choice")


async def read_grammar(
    request: GenerationRequest,
    prompt: tuple[int, ...],
    model: ServedModel,
    found: Violations,
    *,
    caller: str,
    num_samples: int,
) -> Grammar | None:
    """The grammar, compiled for `num_samples` samples; None if it is invalid, with the reason added to `found`.

    In the answer to a conversation, it holds after the reasoning.
    """
    message = request.grammar
    name = message.WhichOneof("kind")
    if name is None:
        found.add("grammar", "is of no kind", ", ".join(_KINDS))
        return None
    if _has_empty_text(message):
        found.add(f"grammar.{name}", "is empty, or has an empty text", "texts with at least one character")
        return None
    for mark in ("start", "end", "prefix"):
        if (size := len(getattr(message.reasoning, mark).encode())) > _MOST_MARK_BYTES:
            found.add(f"grammar.reasoning.{mark}", f"has {size} bytes", f"at most {_MOST_MARK_BYTES}")
            return None
    if message.reasoning.end and not (message.reasoning.start or message.reasoning.begun):
        found.add("grammar.reasoning.start", "is empty", "a mark; or begun")
        return None
    source = read_source(message)
    if request.prompt.WhichOneof("input") == "chat" and not message.HasField("reasoning"):
        thought = await asyncio.to_thread(thought_of, prompt, model.tokenizer, model.syntax)
        source = replace(source, reasoning=marks_before_answer(model.syntax, thought))
    return await _compile(source, f"grammar.{name}", model.grammars, found, caller=caller, num_samples=num_samples)


def _has_empty_text(message: common_pb2.Grammar) -> bool:
    texts = read_source(message).texts
    return not texts or not all(texts)


async def read_tool_grammar(
    message: GenerationRequest,
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
    return await _compile(source, field, model.grammars, found, caller=caller, num_samples=num_samples)


def _bound_grammar(chat: common_pb2.Chat, prompt: tuple[int, ...], model: ServedModel) -> GrammarSource:
    """The grammar's source; raises ValueError for schemas that cannot be constrained to."""
    assert model.syntax.tools is not None
    choice = chat.tool_choice
    required = is_required(choice)
    named = choice.HasField("tool")
    rule = CallRule(
        tools=[
            BoundTool(tool.name, schema_of(tool) if required or tool.strict else None)
            for tool in chat.tools
            if not named or tool.name == choice.tool
        ],
        is_required=required,
        is_parallel=not named and (choice.parallel or not choice.HasField("parallel")),
    )
    thought = thought_of(prompt, model.tokenizer, model.syntax)
    try:
        return tool_grammar(rule, model.syntax.tools, model.syntax, thought, most_bytes=LIMITS.max_grammar_bytes)
    except RecursionError as error:
        raise ValueError("a schema is nested too deeply") from error


async def _compile(
    source: GrammarSource, field: str, grammars: GrammarProcess, found: Violations, *, caller: str, num_samples: int
) -> Grammar | None:
    """The compiled grammar; None if it is invalid, with the reason added to `found` for the field it comes from."""
    if (size := source.num_bytes) > LIMITS.max_grammar_bytes:
        found.add(field, f"has {size} bytes", f"at most {LIMITS.max_grammar_bytes}")
        return None
    try:
        return await grammars.compile(source, caller, num_states=num_samples)
    except GrammarError as error:
        found.add(field, f"cannot be followed: {error}", "what llguidance understands")
        return None
