"""Suppressed: what a banned string kept out of an answer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A text that was taken back, because a banned string was complete with it, before anything of it was sent."""

    text: str
    banned_string: str
    position: int
    """Among the generated tokens, of the one in which the banned string began."""
    token_id: int
    """Of that token, which was forbidden there from then on."""
