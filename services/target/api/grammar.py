"""Grammar: reads and tries the grammar that constrains an answer: the request's, that of its tools, or both."""

import asyncio
from dataclasses import replace

from outrider.v1 import common_pb2
from services.draft_protocol.conversions import read_source
from services.engine.grammar.compiler import GrammarError
from services.engine.grammar.source import GrammarSource
from services.engine.grammar.trial import GrammarTrial
from services.service.limits import LIMITS
from services.service.validation import Violations
from services.target.api.call_grammar import CallGrammar
from services.target.api.chat import is_required
from services.target.api.request_messages import GenerationRequest
from services.target.message.thought import marks_before_answer, thought_of
from services.target.models.served_model import ServedModel

_MOST_MARK_BYTES = 64
_KINDS = ("json_schema", "regex", "lark", "choice")
_FOLLOWED = "what llguidance understands"


async def read_grammar(
    request: GenerationRequest,
    prompt: tuple[int, ...],
    model: ServedModel,
    found: Violations,
    *,
    caller: str,
    num_samples: int,
) -> GrammarTrial | None:
    """The grammar, tried for `num_samples` samples; None if it is invalid, with the reason added to `found`.

    In the answer to a conversation, it holds after the reasoning.
    """
    if (source := _read_form(request.grammar, found)) is None:
        return None
    if request.prompt.WhichOneof("input") == "chat" and not request.grammar.HasField("reasoning"):
        thought = await asyncio.to_thread(thought_of, prompt, model.tokenizer, model.syntax)
        source = replace(source, reasoning=marks_before_answer(model.syntax, thought))
    field = _field_of(request.grammar)
    if (size := source.num_bytes) > LIMITS.max_grammar_bytes:
        found.add(field, f"has {size} bytes", f"at most {LIMITS.max_grammar_bytes}")
        return None
    try:
        return await model.grammars.try_out(source, caller, num_states=num_samples)
    except GrammarError as error:
        found.add(field, f"cannot be followed: {error}", _FOLLOWED)
        return None


async def read_tool_grammar(
    message: GenerationRequest,
    prompt: tuple[int, ...],
    model: ServedModel,
    found: Violations,
    *,
    caller: str,
    num_samples: int,
) -> GrammarTrial | None:
    """The grammar, tried, of an answer that calls tools or, unless it has to, has the request's form or any text.

    None if the request has errors, which are in `found`.
    """
    form = None
    if message.HasField("grammar") and not is_required(message.prompt.chat.tool_choice):
        form = _read_form(message.grammar, found)
        if message.grammar.HasField("lark"):
            found.add("grammar.lark", "is set", "another grammar, with tools that bind the answer to their schemas")
    if found:
        return None
    calls = CallGrammar(
        message.prompt.chat,
        form,
        prompt,
        model,
        has_own_marks=message.grammar.HasField("reasoning"),
        caller=caller,
        num_samples=num_samples,
    )
    try:
        return await calls.try_out()
    except GrammarError as error:
        if not calls.add_faults(found):
            field = "prompt.chat.tools" if form is None else _field_of(message.grammar)
            found.add(field, f"cannot be followed: {error}", _FOLLOWED)
        return None


def _read_form(message: common_pb2.Grammar, found: Violations) -> GrammarSource | None:
    """The source of a request's grammar; None if it is invalid, with the reason added to `found`."""
    name = message.WhichOneof("kind")
    if name is None:
        found.add("grammar", "is of no kind", ", ".join(_KINDS))
        return None
    source = read_source(message)
    if not source.texts or not all(source.texts):
        found.add(f"grammar.{name}", "is empty, or has an empty text", "texts with at least one character")
        return None
    for mark in ("start", "end", "prefix"):
        if (size := len(getattr(message.reasoning, mark).encode())) > _MOST_MARK_BYTES:
            found.add(f"grammar.reasoning.{mark}", f"has {size} bytes", f"at most {_MOST_MARK_BYTES}")
            return None
    if message.reasoning.end and not (message.reasoning.start or message.reasoning.begun):
        found.add("grammar.reasoning.start", "is empty", "a mark; or begun")
        return None
    return source


def _field_of(message: common_pb2.Grammar) -> str:
    return f"grammar.{message.WhichOneof('kind')}"
