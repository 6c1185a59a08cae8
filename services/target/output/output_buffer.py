"""OutputBuffer: what was drawn but is not delivered, as it may yet be taken back."""

import math
from itertools import accumulate
from typing import NamedTuple

from services.engine.events import Chunk, PassReport, Suppressed, TokenRecord
from services.engine.grammar.state import GrammarState
from services.engine.thinking_budget import Thought
from services.target.output.alternatives import Alternatives
from services.target.output.detokenizer import Detokenizer
from services.target.output.loop_detector import LoopDetector


class Snapshot(NamedTuple):
    """What is known of an answer before one of its tokens: enough to draw that token anew."""

    detokenizer: Detokenizer
    loop: LoopDetector | None
    grammar: GrammarState | None
    thought: Thought | None


class _BufferedToken(NamedTuple):
    record: TokenRecord
    text: str  # that it has released
    before: Snapshot | None
    forbidden: tuple[int, ...]  # when it was drawn

    @property
    def tried(self) -> tuple[int, ...]:
        """What was drawn in its place so far."""
        return *self.forbidden, self.record.token_id


class OutputBuffer:
    """The last tokens of an answer, and what is forbidden behind them.

    A token that is taken back is forbidden at its position, as are those taken back there before it, for as long as the
    tokens before it stay. All that happens behind delivered tokens is therefore a pure function of them.
    """

    def __init__(self) -> None:
        self.forbidden: tuple[int, ...] = ()
        """Ids that the next token must not be."""
        self._tokens: list[_BufferedToken] = []
        self._suppressed: list[tuple[int, Suppressed]] = []  # each with the position whose token it is delivered with
        self._reports: list[PassReport] = []

    def __len__(self) -> int:
        """Tokens held."""
        return len(self._tokens)

    @property
    def text(self) -> str:
        """The text that they have released."""
        return "".join(token.text for token in self._tokens)

    def push(self, record: TokenRecord, text: str, before: Snapshot | None) -> None:
        """Hold a token that was drawn; `before` is None where nothing is ever taken back."""
        self._tokens.append(_BufferedToken(record, text, before, self.forbidden))
        self.forbidden = ()

    def add_report(self, report: PassReport) -> None:
        """Hold the report of the pass that has drawn the last of them."""
        self._reports.append(report)

    def num_to_take_back(self, num_tokens: int, alternatives: Alternatives, *, end: int) -> int | None:
        """How many tokens to take back for a banned string in the last ones: from the first on that leaves a choice.

        Where none does, all of them, and nothing is left to draw then. None where that takes some that are not held:
        the answer has `end` tokens, of which the first were received.
        """
        held = self._tokens[-num_tokens:]
        is_received = len(held) < num_tokens
        if is_received and alternatives.are_unlimited:
            return None
        for num_left, token in zip(range(len(held), 0, -1), held, strict=True):
            assert token.before is not None
            grammar, thought = token.before.grammar, token.before.thought
            if alternatives.remain(token.tried, grammar, thought, num_generated=end - num_left):
                return num_left
        return None if is_received else num_tokens

    def take_back(self, num_tokens: int, suppressed: Suppressed) -> Snapshot:
        """Forget the last tokens, forbid the first of these in its place, and return what was known before it."""
        first = self._tokens[-num_tokens]
        assert first.before is not None
        del self._tokens[-num_tokens:]
        self.forbidden = first.tried
        here = suppressed.position
        self._suppressed = [(min(position, here), earlier) for position, earlier in self._suppressed]
        self._suppressed.append((here, suppressed))
        return first.before

    def release_all(self, last_text: str) -> Chunk:
        """Let go of everything, at the end of the answer, and of its last text with it."""
        return self._release(len(self._tokens), end=math.inf, last_text=last_text)

    def release(self, num_unsafe: int, *, end: int) -> Chunk:
        """Let go of what is safe, where a banned string may have begun in the last `num_unsafe` tokens.

        `end` is the position behind the last token. Where tokens were taken back, a string that they had put out of the
        question would be possible again: so what was unsafe before one that is unsafe is so too.
        """
        index = len(self._tokens)
        first = index - num_unsafe
        while index > max(0, first):
            index -= 1
            before = self._tokens[index].before
            assert before is not None
            first = min(first, index - before.detokenizer.num_unsafe)
        return self._release(max(0, first), end=end)

    def _release(self, count: int, *, end: float, last_text: str = "") -> Chunk:
        """Let go of the first tokens.

        What was suppressed comes with the token in whose place it was: both are delivered once, wherever a stream is
        cut.
        """
        released = self._tokens[:count]
        del self._tokens[:count]
        reports, self._reports = (self._reports, []) if released else ([], self._reports)
        return Chunk(
            "".join([token.text for token in released]) + last_text,
            tuple([token.record for token in released]),
            tuple(reports),
            self._pop_suppressed(before=end - len(self._tokens)) if self._suppressed else (),
            tuple(accumulate(len(token.text) for token in released)),
        )

    def _pop_suppressed(self, *, before: float) -> tuple[Suppressed, ...]:
        due = [suppressed for position, suppressed in self._suppressed if position < before]
        del self._suppressed[: len(due)]
        return tuple(due)
