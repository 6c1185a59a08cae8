"""ChoicePositions: how far the reader of an event stream has got, read from the events' ids."""

import re
from dataclasses import dataclass, replace

from services.gateway.generation.head import Ticket
from services.gateway.generation.piece import Piece
from services.gateway.generation.problem import Kind, Problem

HEADER = "Last-Event-ID"
_MOST_CHARACTERS = 1 << 13
_SEED_BITS = 64
_ID = re.compile(r"(\w{24})\.(\d{1,12})\.(\d{1,20})\.([0-9a-f]{12})\.(\d{1,12})\.(\d{1,4})\.(\d[\d_-]*)", re.ASCII)
_POSITION = re.compile(r"(\d{1,9})-(\d{1,9})-(\d{1,4})", re.ASCII)


@dataclass(slots=True)
class ChoicePosition:
    """How much of one choice was sent: tokens, units of deltas, and the events since then that brought neither."""

    tokens: int = 0
    units: int = 0
    events: int = 0

    def __str__(self) -> str:
        return f"{self.tokens}-{self.units}-{self.events}"


class ChoicePositions:
    """The positions of all choices, the number of events, and the number of events after the end of all choices.

    An event's id is the text of these. The text that an answer's tokens give depends on the tokens only, however they
    are divided into events, so the same position can be found when the answer is generated again.
    """

    def __init__(self, ticket: Ticket, check: str, num_choices: int) -> None:
        self.check = check
        self.ticket = ticket
        self.count = 0
        self.tail = 0
        self.choices = [ChoicePosition() for _ in range(num_choices)]
        self._head = f"{ticket.name}.{ticket.created}.{ticket.seed}.{check}"

    @classmethod
    def read(cls, event_id: str) -> "ChoicePositions":
        """The positions that an event's id holds; raises Problem for an id that this server did not make."""
        match = _ID.fullmatch(event_id) if len(event_id) <= _MOST_CHARACTERS else None
        found = [_POSITION.fullmatch(position) for position in match[7].split("_")] if match else [None]
        if match is None or None in found or int(match[3]) >> _SEED_BITS:
            raise Problem(Kind.INVALID, f"{HEADER}: is no id of an event of this server", HEADER)
        positions = cls(Ticket(match[1], int(match[2]), int(match[3])), match[4], 0)
        positions.count, positions.tail = int(match[5]), int(match[6])
        positions.choices = [ChoicePosition(*map(int, position.groups())) for position in found if position]
        return positions

    def passed(self, piece: Piece) -> None:
        """Advance beyond a piece."""
        position = self.choices[piece.choice]
        position.tokens += len(piece.token_ids)
        position.units += piece.units
        position.events = 0

    def __str__(self) -> str:
        return f"{self._head}.{self.count}.{self.tail}.{'_'.join(map(str, self.choices))}"


class Missed:
    """The part of a resumed answer that the client has already and that must be skipped."""

    def __init__(self, positions: ChoicePositions | None, num_choices: int) -> None:
        """`positions` are how far the reader got, or None; raises Problem for another number of choices."""
        if positions is not None and len(positions.choices) != num_choices:
            raise Problem(Kind.INVALID, f"{HEADER}: belongs to an answer with another number of choices", HEADER)
        self._left = [replace(position) for position in positions.choices] if positions else None
        self._tail = positions.tail if positions else 0

    def split(self, piece: Piece) -> tuple[Piece | None, Piece | None]:
        """Return the part of a piece that the client has, and the new part; None for an empty part."""
        if self._left is None:
            return None, piece
        left = self._left[piece.choice]
        if piece.is_of_prompt and (left.tokens or left.units):
            return piece, None
        tokens, units = min(left.tokens, len(piece.token_ids)), min(left.units, piece.units)
        if not tokens and not units:
            return None, piece
        left.tokens -= tokens
        left.units -= units
        known, new = piece.split(tokens, units)
        return known, new if new.token_ids or new.delta is not None else None

    def drop(self, choice: int | None) -> bool:
        """Return whether the client has the next event of a choice, or with None the next one after all choices."""
        if choice is None:
            self._tail, has = self._tail - 1, self._tail > 0
            return has
        if self._left is None or not self._left[choice].events:
            return False
        self._left[choice].events -= 1
        return True
