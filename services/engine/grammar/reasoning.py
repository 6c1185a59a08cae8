"""ReasoningMarks: the reasoning that may come before a constrained text."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from services.engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ReasoningMarks:
    """The marks around the reasoning; it is free text up to the first end mark, with up to two newlines after it.

    A mark may be one token, or have control tokens in it.
    """

    start: str
    end: str
    is_begun: bool  # the prompt has begun the reasoning; otherwise the text may
    prefix: str = ""  # comes before the constrained text in any case

    def lines(self, tokenizer: Tokenizer) -> Iterator[str]:
        """The rules of the Lark grammar for the reasoning, whose rule is `reasoning`."""
        begun, prefix = "thought GAP", _written(self.prefix, tokenizer)
        rest = begun if self.is_begun else f"({_written(self.start, tokenizer)} {begun})?"
        yield f"reasoning: {rest} {prefix}"
        end = tokenizer.encode(self.end, add_special_tokens=False)
        if end and tokenizer.is_special(end[0]):  # text never matches a control token
            yield f"thought: TEXT {_written(self.end, tokenizer)}"
        else:
            yield f"thought[lazy]: TEXT {_literal(self.end)}"
        yield r"GAP: /\n{0,2}/"
        yield "TEXT: /(?s:.*)/"


def _written(text: str, tokenizer: Tokenizer) -> str:
    """A text whose control tokens are written as tokens, and a text that is one token as that."""
    ids = tokenizer.encode(text, add_special_tokens=False) if text else []
    if len(ids) == 1:
        return f"<[{ids[0]}]>"
    groups = groupby(ids, key=lambda token_id: token_id if tokenizer.is_special(token_id) else None)
    return " ".join(
        _literal(b"".join(map(tokenizer.token_bytes, group)).decode()) if token_id is None else f"<[{token_id}]>"
        for token_id, group in groups
    )


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
