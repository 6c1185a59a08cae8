"""HeldTokens: what was drawn but is not delivered, as it may yet be taken back."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from services.engine.events import Chunk, PassReport, Suppressed, TokenRecord
from services.engine.loop_detector import LoopDetector
from services.engine.output_text import OutputText


class Checkpoint(NamedTuple):
    """What is known of an answer before one of its tokens: enough to draw that token anew."""

    text: OutputText
    loop: LoopDetector | None


@dataclass(frozen=True, slots=True)
class _HeldToken:
    record: TokenRecord
    text: str  # that it has released
    before: Checkpoint | None
    forbidden: tuple[int, ...]  # when it was drawn


class HeldTokens:
    """The last tokens of an answer, and what is forbidden behind them.

    A token that is taken back is forbidden at its position, as are those taken back there before it, for as long as the
    tokens before it stay. All that happens behind delivered tokens is therefore a pure function of them.
    """

    def __init__(self) -> None:
        self.forbidden: tuple[int, ...] = ()
        """Ids that the next token must not be."""
        self._tokens: list[_HeldToken] = []
        self._suppressed: list[tuple[int, Suppressed]] = []  # each with the position whose token it is delivered with
        self._reports: list[PassReport] = []

    def __len__(self) -> int:
        """Tokens held."""
        return len(self._tokens)

    @property
    def text(self) -> str:
        """The text that they have released."""
        return "".join(token.text for token in self._tokens)

    def push(self, record: TokenRecord, text: str, before: Checkpoint | None) -> None:
        """Hold a token that was drawn; `before` is None where nothing is ever taken back."""
        self._tokens.append(_HeldToken(record, text, before, self.forbidden))
        self.forbidden = ()

    def report(self, report: PassReport) -> None:
        """Hold the report of the pass that has drawn the last of them."""
        self._reports.append(report)

    def take_back(self, num_tokens: int, suppressed: Suppressed) -> Checkpoint:
        """Forget the last tokens, forbid the first of these in its place, and return what was known before it."""
        first = self._tokens[-num_tokens]
        assert first.before is not None
        del self._tokens[-num_tokens:]
        self.forbidden = (*first.forbidden, first.record.token_id)
        here = suppressed.position
        self._suppressed = [(min(position, here), earlier) for position, earlier in self._suppressed]
        self._suppressed.append((here, suppressed))
        return first.before

    def release_all(self) -> Chunk:
        """Let go of everything, at the end of the answer."""
        return self._release(len(self._tokens), end=math.inf)

    def release(self, num_unsafe: int, *, end: int) -> Chunk:
        """Let go of what is safe, where a banned string may have begun in the last `num_unsafe` tokens.

        `end` is the position behind the last token. Where tokens were taken back, a string that they had put out of the
        question would be possible again: so what was unsafe before one that is unsafe is so too.
        """
        first = len(self._tokens) - num_unsafe
        for index, token in reversed([*enumerate(self._tokens)]):
            if index < first or token.before is None:
                break
            first = min(first, index - token.before.text.num_unsafe)
        return self._release(max(0, first), end=end)

    def _release(self, count: int, *, end: float) -> Chunk:
        """Let go of the first tokens.

        What was suppressed comes with the token in whose place it was: both are delivered once, wherever a stream is
        cut.
        """
        released, self._tokens = self._tokens[:count], self._tokens[count:]
        num_due = sum(position < end - len(self._tokens) for position, _ in self._suppressed)
        due, self._suppressed = self._suppressed[:num_due], self._suppressed[num_due:]
        reports, self._reports = (tuple(self._reports), []) if released else ((), self._reports)
        text = "".join(token.text for token in released)
        return Chunk(
            text, tuple(token.record for token in released), reports, tuple(suppressed for _, suppressed in due)
        )
