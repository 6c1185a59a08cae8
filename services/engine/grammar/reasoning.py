"""ReasoningMarks: the reasoning that may come before a constrained text."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from services.engine.text.tokenizer import Tokenizer

_MARK = re.compile(r"(<[^<>\s]+>)")


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
    """A text in which marks that are single tokens are written as these."""
    if (whole := tokenizer.id_of(text)) is not None:
        return f"<[{whole}]>"
    pieces = [(piece, tokenizer.id_of(piece)) for piece in _MARK.split(text) if piece]
    return " ".join(_literal(piece) if token_id is None else f"<[{token_id}]>" for piece, token_id in pieces)


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
