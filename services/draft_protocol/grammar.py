"""Grammars: reads them from messages, and writes them."""

from outrider.v1 import common_pb2
from services.engine.grammar.compiler import GrammarError
from services.engine.grammar.grammar import Grammar
from services.engine.grammar.process import GrammarProcess
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.service.limits import LIMITS
from services.service.validation import Violations

_TEXTS = {"json_schema": GrammarKind.JSON_SCHEMA, "regex": GrammarKind.REGEX, "lark": GrammarKind.LARK}
_NAMES = {kind: name for name, kind in _TEXTS.items()}


async def read_grammar(
    message: common_pb2.Grammar, grammars: GrammarProcess, found: Violations, *, caller: str, num_samples: int
) -> Grammar | None:
    """The grammar, compiled for `num_samples` samples; None if it is invalid, with the reason added to `found`."""
    name = message.WhichOneof("kind")
    if name is None:
        found.add("grammar", "is of no kind", ", ".join((*_TEXTS, "choice")))
        return None
    if _has_empty_text(message):
        found.add(f"grammar.{name}", "is empty, or has an empty text", "texts with at least one character")
        return None
    return await compile_source(
        read_source(message), f"grammar.{name}", grammars, found, caller=caller, num_samples=num_samples
    )


async def compile_source(
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


def read_source(message: common_pb2.Grammar) -> GrammarSource:
    """The source text of a message's grammar."""
    name = message.WhichOneof("kind")
    if name is None or name == "choice":
        return GrammarSource(GrammarKind.CHOICE, tuple(message.choice.texts), message.prefer_end)
    return GrammarSource(_TEXTS[name], (getattr(message, name),), message.prefer_end)


def write_grammar(source: GrammarSource) -> common_pb2.Grammar:
    """The message of a grammar's source text."""
    message = common_pb2.Grammar(prefer_end=source.prefers_end or None)
    if source.kind is GrammarKind.CHOICE:
        message.choice.texts.extend(source.texts)
    else:
        setattr(message, _NAMES[source.kind], source.texts[0])
    return message


def _has_empty_text(message: common_pb2.Grammar) -> bool:
    texts = read_source(message).texts
    return not texts or not all(texts)
