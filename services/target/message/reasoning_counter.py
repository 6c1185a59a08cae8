"""ReasoningCounter: counts the tokens of an answer up to the end of its reasoning."""

from collections.abc import Iterable
from enum import Enum, auto

from services.engine.text.tokenizer import Tokenizer
from services.target.message.syntax import ReasoningSyntax
from services.target.message.thought import PromptThought


class _Part(Enum):
    BEFORE = auto()
    REASONING = auto()
    AFTER = auto()


_FIRST = {PromptThought.NONE: _Part.BEFORE, PromptThought.OPEN: _Part.REASONING, PromptThought.CLOSED: _Part.AFTER}


class ReasoningCounter:
    """Reads the tokens of an answer in order; the marks of the reasoning count as part of it."""

    def __init__(self, tokenizer: Tokenizer, marks: ReasoningSyntax | None, thought: PromptThought) -> None:
        """`marks` are None for a model without reasoning; `thought` is the state at the end of the prompt."""
        self._tokenizer = tokenizer
        self._start, self._end = (b"", b"") if marks is None else (marks.start.encode(), marks.end.encode())
        self._part = _Part.AFTER if marks is None else _FIRST[thought]
        self._text = b""  # in which a mark may begin
        self._num_tokens = 0

    @property
    def count(self) -> int:
        """The number of reasoning tokens so far."""
        return 0 if self._part is _Part.BEFORE else self._num_tokens

    def push(self, token_ids: Iterable[int]) -> None:
        """Read further tokens of the answer."""
        for token_id in token_ids:
            if self._part is _Part.AFTER:
                return
            self._num_tokens += 1
            self._text += self._tokenizer.token_bytes(token_id)
            if self._part is _Part.BEFORE:
                self._begin(self._text.lstrip())
            if self._part is _Part.REASONING:
                self._continue()

    def _begin(self, text: bytes) -> None:
        self._text = text
        if text.startswith(self._start):
            self._part, self._text = _Part.REASONING, text[len(self._start) :]
        elif not self._start.startswith(text):
            self._part, self._num_tokens = _Part.AFTER, 0

    def _continue(self) -> None:
        if self._end in self._text:
            self._part = _Part.AFTER
        self._text = self._text[-len(self._end) :]
