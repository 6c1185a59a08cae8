"""CommandParser: the parser of a command, which says what a mistyped option may have meant."""

import argparse
import sys
from collections.abc import Collection, Iterable
from collections.abc import Sequence as Seq
from difflib import get_close_matches
from itertools import takewhile
from typing import Any

_SHORT = 3  # letters: many options begin with so few


class CommandParser(argparse.ArgumentParser):
    """Reports an unknown option with the usage of its command; argparse reports it with that of the main command."""

    passes_to = ""
    """The command whose options may be given after "--"; empty if there are none."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - argparse's own
        """No abbreviations: `outrider up --weights int8` would name a folder for --weights-cache."""
        super().__init__(**{"allow_abbrev": False, **options})

    def parse_known_args(self, args: Seq[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]  # noqa: ANN401
        """Parse all arguments; ends the process if there are unknown ones, before it misses any."""
        args = sys.argv[1:] if args is None else args
        if self._subparsers is None and (option := next(filter(self._is_unknown, _own(args)), "")):
            self.error(self._complaint(option.partition("=")[0]))
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"nothing is expected at {unknown[0]!r}")
        return parsed, unknown

    def _is_unknown(self, word: str) -> bool:
        """Return whether argparse takes a word for an option, and has no such option."""
        return word.startswith("--") and " " not in word and word.partition("=")[0] not in self._option_string_actions

    def _complaint(self, option: str) -> str:
        hints = [did_you_mean(option, self._option_string_actions) or f"; {self.prog} --help lists them"]
        if self.passes_to:
            hints.append(f"; options of `outrider {self.passes_to}` go after --")
        return f"there is no option {option}{''.join(hints)}"


def _own(words: Seq[str]) -> Iterable[str]:
    """Return the words before "--"."""
    return takewhile(lambda word: word != "--", words)


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return a question for the known words that begin with this one, or for the most similar one; "" if none is."""
    longer = [other for other in known if len(word) > _SHORT and other.startswith(word)]
    matches = longer or get_close_matches(word, known, n=1, cutoff=0.7)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""
