"""Piece: the next part of one of the answers of a request, small enough for one event of an API."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from outrider import ArgumentsDelta, Chunk, ContentDelta, PassReport, ReasoningDelta, Token, ToolCall, ToolCallStart

PartDelta = ReasoningDelta | ContentDelta | ToolCallStart | ArgumentsDelta
"""A delta of a message, whose calls come in parts."""
MOST_OF_PROMPT = 128
"""The most tokens of a prompt in one piece."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one answer and the delta that they add to its message, if any; an answer to a text is all content."""

    choice: int
    token_ids: tuple[int, ...]
    tokens: tuple[Token, ...] = ()
    """The tokens' records, if requested; without `token_ids`, records of some tokens of the prompt."""
    delta: PartDelta | None = None
    reports: tuple[PassReport, ...] = ()
    """Reports of the passes that ended with these tokens, if requested."""

    @property
    def is_of_prompt(self) -> bool:
        """Whether it has records of the prompt, which all come before the answer's own tokens."""
        return bool(self.tokens) and not self.token_ids

    @property
    def units(self) -> int:
        """The length of the delta in characters; the beginning of a tool call counts as one."""
        return 0 if self.delta is None else 1 if isinstance(self.delta, ToolCallStart) else len(self.delta.text)

    def split(self, tokens: int, units: int) -> tuple["Piece", "Piece"]:
        """Return a piece with the given numbers of first tokens and units, and one with the rest and the reports."""
        first, rest = _split(self.delta, units)
        reports = self.reports if tokens < len(self.token_ids) else ()
        return (
            Piece(self.choice, self.token_ids[:tokens], self.tokens[:tokens], first),
            Piece(self.choice, self.token_ids[tokens:], self.tokens[tokens:], rest, reports),
        )


def pieces_of(chunk: Chunk, choice: int, *, reads_messages: bool) -> Iterator[Piece]:
    """Yield the pieces of a chunk; the first one has all its tokens."""
    deltas: list[PartDelta] = [delta for delta in chunk.message_deltas if not isinstance(delta, ToolCall)]
    if not reads_messages:
        deltas = [ContentDelta(chunk.text)] if chunk.text else []
    yield Piece(choice, chunk.token_ids, chunk.tokens, deltas[0] if deltas else None, chunk.pass_reports)
    for delta in deltas[1:]:
        yield Piece(choice, (), (), delta)


def pieces_of_prompt(records: Seq[Token], choice: int) -> Iterator[Piece]:
    """Yield pieces with the records of a prompt's tokens."""
    for begin in range(0, len(records), MOST_OF_PROMPT):
        yield Piece(choice, (), tuple(records[begin : begin + MOST_OF_PROMPT]))


def _split(delta: PartDelta | None, units: int) -> tuple[PartDelta | None, PartDelta | None]:
    if delta is None or units <= 0:
        return None, delta
    if isinstance(delta, ToolCallStart) or units >= len(delta.text):
        return delta, None
    return replace(delta, text=delta.text[:units]), replace(delta, text=delta.text[units:])
