"""ReasoningMarks: the reasoning that may come before a constrained text."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from services.engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ReasoningMarks:
    """The marks around the reasoning; it is free text up to the first end mark, with up to two newlines after it."""

    start: str
    end: str
    is_begun: bool  # the prompt has begun the reasoning; otherwise the text may

    def lines(self, tokenizer: Tokenizer) -> Iterator[str]:
        """The rules of the Lark grammar for the reasoning, whose rule is `reasoning`; marks may be single tokens."""
        begun = "thought GAP"
        start, end = tokenizer.id_of(self.start), tokenizer.id_of(self.end)
        written = _literal(self.start) if start is None else f"<[{start}]>"
        yield f"reasoning: {begun}" if self.is_begun else f"reasoning: ({written} {begun})?"
        if end is not None and tokenizer.is_special(end):  # text never matches a control token
            yield f"thought: TEXT <[{end}]>"
        else:
            yield f"thought[lazy]: TEXT {_literal(self.end)}"
        yield r"GAP: /\n{0,2}/"
        yield "TEXT: /(?s:.*)/"


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
