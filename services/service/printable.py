"""Printable: makes a text from outside safe for a log line, or for a message to another client."""

_LONGEST = 100  # characters


def printable(text: str, longest: int = _LONGEST) -> str:
    """Return the beginning of a text, with U+FFFD for each unprintable character, such as a line break."""
    kept = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[:longest])
    return kept if len(text) <= longest else f"{kept}..."
