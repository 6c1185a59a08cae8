"""Grammars for tests, and texts that follow them at random."""

import functools
import json
import random
import re
from typing import Any

import numpy as np

from services.engine.grammar import Grammar
from services.engine.grammar_compiler import GrammarCompiler
from services.engine.grammar_source import GrammarKind, GrammarSource
from services.engine.grammar_state import GrammarState
from services.engine.tokenizer import Tokenizer

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "kind": {"enum": ["circle", "square"]},
            "sizes": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        },
        "required": ["name", "kind", "sizes"],
        "additionalProperties": False,
        "x-guidance": {"whitespace_flexible": False},
    }
)
SOURCES = {
    "json_schema": GrammarSource(GrammarKind.JSON_SCHEMA, (SCHEMA,)),
    "any json": GrammarSource(GrammarKind.JSON_SCHEMA, ("{}",)),
    "regex": GrammarSource(GrammarKind.REGEX, (r"(ab|abc(d|é)*)+ [0-9]{2,4}!?",)),
    "lark": GrammarSource(
        GrammarKind.LARK, ('start: expr\nexpr: /[0-9]{1,3}/ | "(" expr ("+" | " minus ") expr ")" | /[a-z]{1,4}/\n',)
    ),
    "choice": GrammarSource(GrammarKind.CHOICE, ("yes", "yes, of course", "no\n", "a.b|c (d) $1", "\\d é 東")),
}


def follows(name: str, text: str) -> bool:
    """Whether a whole text is one of a grammar's, by other means than ours."""
    source = SOURCES[name].texts
    match name:
        case "json_schema":
            return _is_of_schema(json.loads(text))
        case "any json":
            json.loads(text)
            return True
        case "regex":
            return re.fullmatch(source[0], text) is not None
        case "lark":
            return _is_expression(text)
    return text in source


def _is_of_schema(value: dict[str, Any]) -> bool:
    return (
        [*value] == ["name", "kind", "sizes"]
        and isinstance(value["name"], str)
        and len(value["name"]) <= 12
        and value["kind"] in {"circle", "square"}
        and all(isinstance(size, int) for size in value["sizes"])
        and len(value["sizes"]) <= 3
    )


def _is_expression(text: str) -> bool:
    text = re.sub(r"[0-9]{1,3}|[a-z]{1,4}", "e", text.replace(" minus ", "+"))
    while (shorter := text.replace("(e+e)", "e")) != text:
        text = shorter
    return text == "e"


@functools.cache
def compiler(tokenizer: Tokenizer, vocab_size: int) -> GrammarCompiler:
    """The compiler of a vocabulary, made once."""
    return GrammarCompiler(tokenizer, vocab_size=vocab_size)


def compiled(name: str, tokenizer: Tokenizer, vocab_size: int) -> Grammar:
    """One of SOURCES."""
    return compiler(tokenizer, vocab_size).compile(SOURCES[name])


def allowed(mask: np.ndarray, vocab_size: int) -> list[int]:
    """The ids whose bits are set in one row."""
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")[:vocab_size]).tolist()


def random_walk(
    state: GrammarState, chance: random.Random, vocab_size: int, *, stop_id: int, length: int
) -> tuple[list[int], list[np.ndarray]]:
    """A random text of at most so many tokens: its ids, less the stop, and the mask before each and behind the last."""
    token_ids: list[int] = []
    masks = [state.masks()[0]]
    while len(token_ids) < length:
        token_id = chance.choice(allowed(masks[-1], vocab_size))
        if token_id == stop_id:
            break
        state.advance([token_id])
        token_ids.append(token_id)
        masks.append(state.masks()[0])
    return token_ids, masks
