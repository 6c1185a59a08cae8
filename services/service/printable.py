"""Printable: a text from outside as it may stand in a line of a log, or in a message to somebody else."""

_LONGEST = 100  # characters


def printable(text: str, longest: int = _LONGEST) -> str:
    """The beginning of a text, with a mark in place of what is not printable, as line breaks are."""
    kept = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[:longest])
    return kept if len(text) <= longest else f"{kept}..."
