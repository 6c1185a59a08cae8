"""Places: how far the reader of an event stream has got, as the events' ids tell it."""

import re
from dataclasses import dataclass, replace

from services.gateway.generation.head import Ticket
from services.gateway.generation.piece import Piece
from services.gateway.generation.problem import Kind, Problem

HEADER = "Last-Event-ID"
_MOST_CHARACTERS = 1 << 13
_SEED_BITS = 64
_ID = re.compile(r"(\w{24})\.(\d{1,12})\.(\d{1,20})\.([0-9a-f]{12})\.(\d{1,12})\.(\d{1,4})\.(\d[\d_-]*)", re.ASCII)
_PLACE = re.compile(r"(\d{1,9})-(\d{1,9})-(\d{1,4})", re.ASCII)


@dataclass(slots=True)
class Place:
    """What of one choice has been sent: tokens, units of deltas, and events that brought neither since then."""

    tokens: int = 0
    units: int = 0
    events: int = 0

    def __str__(self) -> str:
        return f"{self.tokens}-{self.units}-{self.events}"


class Places:
    """The places of all choices, events counted in all and behind the last choice's end; their text is an event's id.

    What the tokens of an answer add to it depends on nothing but the tokens, wherever the events are cut: whoever
    writes the answer once more finds the same place in it.
    """

    def __init__(self, ticket: Ticket, check: str, num_choices: int) -> None:
        self.check = check
        self.ticket = ticket
        self.count = 0
        self.tail = 0
        self.choices = [Place() for _ in range(num_choices)]
        self._head = f"{ticket.name}.{ticket.created}.{ticket.seed}.{check}"

    @classmethod
    def read(cls, event_id: str) -> "Places":
        """The places that an event's id tells of; raises Problem for what is none of ours."""
        match = _ID.fullmatch(event_id) if len(event_id) <= _MOST_CHARACTERS else None
        found = [_PLACE.fullmatch(place) for place in match[7].split("_")] if match else [None]
        if match is None or None in found or int(match[3]) >> _SEED_BITS:
            raise Problem(Kind.INVALID, f"{HEADER}: is no id of an event of this server", HEADER)
        places = cls(Ticket(match[1], int(match[2]), int(match[3])), match[4], 0)
        places.count, places.tail = int(match[5]), int(match[6])
        places.choices = [Place(*map(int, place.groups())) for place in found if place]
        return places

    def passed(self, piece: Piece) -> None:
        """Go beyond a piece."""
        place = self.choices[piece.choice]
        place.tokens += len(piece.token_ids)
        place.units += piece.units
        place.events = 0

    def __str__(self) -> str:
        return f"{self._head}.{self.count}.{self.tail}.{'_'.join(map(str, self.choices))}"


class Missed:
    """What an answer that is written once more has yet to pass before its reader knows no more of it."""

    def __init__(self, places: Places | None, num_choices: int) -> None:
        """`places` are those that the reader has got to, None for one who begins; raises Problem for other choices."""
        if places is not None and len(places.choices) != num_choices:
            raise Problem(Kind.INVALID, f"{HEADER}: is of an answer with other choices", HEADER)
        self._left = [replace(place) for place in places.choices] if places else None
        self._tail = places.tail if places else 0

    def split(self, piece: Piece) -> tuple[Piece | None, Piece | None]:
        """What of a piece the reader has, and has not."""
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
        """Whether the reader has the next event of a choice, or with None of the end of all, that the place counts."""
        if choice is None:
            self._tail, has = self._tail - 1, self._tail > 0
            return has
        if self._left is None or not self._left[choice].events:
            return False
        self._left[choice].events -= 1
        return True
