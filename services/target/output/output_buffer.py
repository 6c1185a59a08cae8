"""OutputBuffer: holds drawn tokens that are not delivered yet because they may be taken back."""

import math
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from services.engine.events import Chunk, PassReport, Suppressed, TokenRecord
from services.target.output.alternatives import Alternatives
from services.target.output.detokenizer import Detokenizer
from services.target.output.loop_detector import LoopDetector
from services.target.sequence.draw_state import MaskState


class Snapshot(NamedTuple):
    """The state of an answer before one of its tokens, from which that token can be drawn again."""

    detokenizer: Detokenizer
    loop: LoopDetector | None
    allowed: MaskState


class _BufferedToken(NamedTuple):
    record: TokenRecord
    text: str  # released by it
    before: Snapshot | None
    forbidden: tuple[int, ...]  # ids forbidden at its position when it was drawn

    @property
    def tried(self) -> tuple[int, ...]:
        """All ids drawn at its position so far."""
        return *self.forbidden, self.record.token_id


class _HeldReport(NamedTuple):
    report: PassReport
    first: int  # position of the first token that is left of the pass
    end: int  # the position after the last one

    def cut(self, end: int) -> "_HeldReport":
        """Without the tokens from a position on."""
        return self._replace(first=min(self.first, end), end=min(self.end, end))

    def completed(self) -> PassReport:
        return replace(self.report, num_tokens=self.end - self.first)


class OutputBuffer:
    """The last tokens of an answer, and the tokens that are forbidden after them.

    A token that is taken back is forbidden at its position, as are those taken back there before it, as long as the
    tokens before it stay. All that happens after the delivered tokens is therefore a pure function of these.
    """

    def __init__(self) -> None:
        self.forbidden: tuple[int, ...] = ()
        """Ids that the next token must not be."""
        self._tokens: list[_BufferedToken] = []
        self._suppressed: list[tuple[int, Suppressed]] = []  # each with the position of the token it is delivered with
        self._reports: list[_HeldReport] = []

    def __len__(self) -> int:
        """The number of held tokens."""
        return len(self._tokens)

    @property
    def text(self) -> str:
        """The text that the held tokens have released."""
        return "".join(token.text for token in self._tokens)

    def push(self, record: TokenRecord, text: str, before: Snapshot | None) -> None:
        """Hold a token that was drawn; `before` is None if nothing is ever taken back."""
        self._tokens.append(_BufferedToken(record, text, before, self.forbidden))
        self.forbidden = ()

    def add_report(self, report: PassReport, *, end: int) -> None:
        """Hold the report of the pass that drew the tokens before the position `end`, until none of them is held."""
        self._reports.append(_HeldReport(report, end - report.num_tokens, end))

    def drop(self, *, end: int) -> None:
        """Drop the held tokens, which begin at the position `end`; the reports of their passes do not count them."""
        self._tokens.clear()
        self._suppressed.clear()
        self._reports = [held.cut(end) for held in self._reports]

    def num_to_take_back(self, num_tokens: int, alternatives: Alternatives) -> int | None:
        """How many tokens to take back for a banned string in the last `num_tokens`: from the first one that has
        alternatives, or all if none has any, in which case nothing is left to draw.

        None if received tokens, which are not held, would have to be taken back.
        """
        held = self._tokens[-num_tokens:]
        is_received = len(held) < num_tokens
        if is_received and alternatives.are_unlimited:
            return None
        for num_left, token in zip(range(len(held), 0, -1), held, strict=True):
            assert token.before is not None
            if alternatives.remain(token.tried, token.before.allowed):
                return num_left
        return None if is_received else num_tokens

    def take_back(self, num_tokens: int, suppressed: Suppressed) -> Snapshot:
        """Forget the last tokens, forbid the first of these at its position, and return the state before it."""
        first = self._tokens[-num_tokens]
        assert first.before is not None
        del self._tokens[-num_tokens:]
        self.forbidden = first.tried
        here = suppressed.position
        self._suppressed = [(min(position, here), earlier) for position, earlier in self._suppressed]
        self._suppressed.append((here, suppressed))
        self._reports = [held.cut(here) for held in self._reports]
        return first.before

    def release_all(self, last_text: str) -> Chunk:
        """Release all tokens at the end of the answer, with its last text."""
        return self._release(len(self._tokens), end=math.inf, last_text=last_text)

    def release(self, num_unsafe: int, *, end: int) -> Chunk:
        """Release the safe tokens, given that a banned string may have begun in the last `num_unsafe` tokens.

        `end` is the position after the last token. If unsafe tokens are taken back, banned strings that they had ruled
        out become possible again: tokens that were unsafe just before an unsafe token are therefore unsafe too.
        """
        index = len(self._tokens)
        if not num_unsafe:
            return self._release(index, end=end)
        first = index - num_unsafe
        while index > max(0, first):
            index -= 1
            before = self._tokens[index].before
            assert before is not None
            first = min(first, index - before.detokenizer.num_unsafe)
        return self._release(max(0, first), end=end)

    def _release(self, count: int, *, end: float, last_text: str = "") -> Chunk:
        """Release the first `count` tokens.

        Suppressed text comes with the token that replaced it, so that both are delivered exactly once, wherever a
        stream is cut.
        """
        released = self._tokens[:count]
        del self._tokens[:count]
        end -= len(self._tokens)
        return Chunk(
            "".join([token.text for token in released]) + last_text,
            tuple([token.record for token in released]),
            self._pop_reports(end=end) if self._reports and (released or end == math.inf) else (),
            self._pop_suppressed(before=end) if self._suppressed else (),
            (len(released[0].text),) if count == 1 else tuple(accumulate([len(token.text) for token in released])),
        )

    def _pop_reports(self, *, end: float) -> tuple[PassReport, ...]:
        due = [held for held in self._reports if held.end <= end]
        del self._reports[: len(due)]
        return tuple(held.completed() for held in due)

    def _pop_suppressed(self, *, before: float) -> tuple[Suppressed, ...]:
        due = [suppressed for position, suppressed in self._suppressed if position < before]
        del self._suppressed[: len(due)]
        return tuple(due)
