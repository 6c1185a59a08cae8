"""LogScan: whether a line of a log holds what no line may: prompts, token ids, bearer tokens."""

import logging
import re
from collections.abc import Collection
from pathlib import Path

# What tests ask for again and again, in words that nothing else says, as it is and as repr writes it.
PROMPTS = ("def main(argv):", "A last-in, first-out stack", "def quicksort", "def read(self, path):", "größe(items)")
_TOKEN_IDS = re.compile(r"(\d+,? ){7}\d+[,\]) ]")  # so many numbers in a row are part of a text
_BEARER = re.compile(r"bearer +[\w-]{8,}", re.IGNORECASE)


def betrayals(text: str, secrets: Collection[str] = PROMPTS) -> list[str]:
    """The lines that hold one of the secrets, several token ids in a row, or a bearer token."""
    return [
        line
        for line in text.splitlines()
        if any(secret in line for secret in secrets) or _TOKEN_IDS.search(line) or _BEARER.search(line)
    ]


def betrayals_in(folder: Path) -> list[str]:
    """Those in all logs of service processes below a folder."""
    return [
        f"{path}: {line}"
        for path in sorted(folder.rglob("*.log"))
        for line in betrayals(path.read_text("utf-8", "replace"))
    ]


class LogScan(logging.Handler):
    """Keeps the lines that should not have been logged."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Look at one record, with its traceback."""
        self.found += betrayals(self.format(record))

    def take(self) -> list[str]:
        """What was found since this was called last."""
        found, self.found = self.found, []
        return found
