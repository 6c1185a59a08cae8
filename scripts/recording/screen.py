"""What stands where on a terminal: runs of text with their style, place and time."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scripts.recording.recorder import Output

_STYLES = {"0": "", "1": "bold", "2": "dim", "31": "red", "32": "green"}  # as services/cli/terminal.py writes them
_PARTS = re.compile(r"\x1b\[(\d+)m|(\r?\n)|([^\x00-\x1f]+)|(.)", re.DOTALL)


@dataclass(frozen=True)
class Run:
    """Text of one style that was written at one time into one line."""

    row: int
    column: int
    text: str
    style: str
    seconds: float


def read_screen(outputs: Iterable[Output], columns: int) -> list[Run]:
    """Where a terminal of that many columns puts what was written; it wraps long lines.

    Raises ValueError for control characters other than line ends and the styles.
    """
    runs: list[Run] = []
    row = column = 0
    style = ""
    for seconds, code, is_end, text in _parts(outputs):
        if code:
            style = _STYLES[code]
        elif is_end:
            row, column = row + 1, 0
        written = 0
        while written < len(text):
            if column == columns:
                row, column = row + 1, 0
            piece = text[written : written + columns - column]
            runs.append(Run(row, column, piece, style, seconds))
            written += len(piece)
            column += len(piece)
    return runs


def _parts(outputs: Iterable[Output]) -> Iterator[tuple[float, str, bool, str]]:
    """Each part of what was written, with its time: the code of a style, the end of a line, or text."""
    rest = ""
    for output in outputs:
        written, rest = rest + output.text, ""
        if cut := re.search(r"(\x1b(\[\d*)?|\r)\Z", written):  # the rest of it comes with the next output
            written, rest = written[: cut.start()], cut[0]
        for found in _PARTS.finditer(written):
            code, end, text, other = found.groups()
            if other or (code and code not in _STYLES):
                raise ValueError(f"{found[0]!r} cannot be drawn: only text, line ends and the styles {[*_STYLES]} can")
            yield output.seconds, code or "", bool(end), text or ""
