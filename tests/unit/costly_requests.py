"""Requests whose grammars soon cost more than their limits, with banned strings that tempt the model."""

from dataclasses import replace
from random import Random
from typing import Any

from llguidance import LLMatcher, LLParserLimits

from services.engine.grammar.grammar import Grammar
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.request import Request
from tests.harness.grammar.grammars import compiler
from tests.unit.banned_model import VOCAB_SIZE, tokenizer
from tests.unit.banned_target import make

_PARTS = ("a", "b", "A", "s", "[ab]", "[sS ]", "ß", "[^a]")
_BANNED = ("ab", "bb", "s", "Ba ", "aa", "bß", "abba", " a", "sS", "A", "b a", "ss")


def costly_request(seed: int) -> Request | None:
    """A random request; None if its grammar is too costly from the start."""
    rng = Random(seed)
    grammar = _grammar(rng)
    if not grammar.begin(stop_ids=()).masks().any():
        return None
    banned = rng.sample(_BANNED, rng.randint(1, 4))
    prompt = [rng.randrange(VOCAB_SIZE) for _ in range(3)]
    request = make(banned, prompt=prompt, seed=seed, temperature=rng.choice((0.0, 1.0)), max_tokens=10)
    return replace(request, grammar=grammar)


def _grammar(rng: Random) -> Grammar:
    """A grammar that needs ever more states: a match may begin at each character, and ends much later."""
    ends = [f"{rng.choice(_PARTS)}.{{{rng.randint(3, 9)}}}" for _ in range(rng.randint(1, 4))]
    source = GrammarSource(GrammarKind.REGEX, (f"(.*)({'|'.join(ends)})",))
    text = source.serialized(tokenizer(), lambda *_: True)
    limits, own = _limits(rng), compiler(tokenizer(), VOCAB_SIZE)

    def read() -> LLMatcher:
        return LLMatcher(own._tokenizer, text, log_level=0, limits=limits)

    return Grammar(source, read, own._threads, vocab_size=VOCAB_SIZE, looks_ahead=True)


def _limits(rng: Random) -> LLParserLimits:
    limits: dict[str, Any] = {"verbose_errors": False}
    if rng.random() < 0.5:
        limits["max_lexer_states"] = rng.randint(15, 90)
    else:
        limits["step_lexer_fuel"] = rng.randint(60, 450)
    return LLParserLimits(**limits)
