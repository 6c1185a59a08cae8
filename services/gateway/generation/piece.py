"""Piece: what follows in one of the answers of a request, small enough to become one event of an API."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from outrider import Chunk, ContentDelta, MessageDelta, PassReport, Token, ToolCall

MOST_OF_PROMPT = 128
"""Tokens of a prompt in one piece."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one answer and what they add to it, at most one delta; a text is all content."""

    choice: int
    token_ids: tuple[int, ...]
    tokens: tuple[Token, ...] = ()
    """Their records, if asked for; without ids those of some tokens of the prompt."""
    delta: MessageDelta | None = None
    reports: tuple[PassReport, ...] = ()
    """Those of the passes that ended with these tokens, if asked for."""

    @property
    def is_of_prompt(self) -> bool:
        """Whether it tells of the prompt, all of which comes before the answer's own tokens."""
        return bool(self.tokens) and not self.token_ids

    @property
    def units(self) -> int:
        """The length of the delta: characters; a call counts as one."""
        return 0 if self.delta is None else 1 if isinstance(self.delta, ToolCall) else len(self.delta.text)

    def split(self, tokens: int, units: int) -> tuple["Piece", "Piece"]:
        """The piece with so many of its tokens and units, and the one with the others, which has the reports."""
        first, rest = _split(self.delta, units)
        reports = self.reports if tokens < len(self.token_ids) else ()
        return (
            Piece(self.choice, self.token_ids[:tokens], self.tokens[:tokens], first),
            Piece(self.choice, self.token_ids[tokens:], self.tokens[tokens:], rest, reports),
        )


def pieces_of(chunk: Chunk, choice: int, *, reads_messages: bool) -> Iterator[Piece]:
    """The pieces of a chunk, whose first one has all its tokens."""
    deltas: tuple[MessageDelta, ...] = chunk.message_deltas
    if not reads_messages:
        deltas = (ContentDelta(chunk.text),) if chunk.text else ()
    yield Piece(choice, chunk.token_ids, chunk.tokens, deltas[0] if deltas else None, chunk.pass_reports)
    for delta in deltas[1:]:
        yield Piece(choice, (), (), delta)


def pieces_of_prompt(records: Seq[Token], choice: int) -> Iterator[Piece]:
    """The records of a prompt's tokens."""
    for begin in range(0, len(records), MOST_OF_PROMPT):
        yield Piece(choice, (), tuple(records[begin : begin + MOST_OF_PROMPT]))


def _split(delta: MessageDelta | None, units: int) -> tuple[MessageDelta | None, MessageDelta | None]:
    if delta is None or units <= 0:
        return None, delta
    if isinstance(delta, ToolCall) or units >= len(delta.text):
        return delta, None
    return replace(delta, text=delta.text[:units]), replace(delta, text=delta.text[units:])
