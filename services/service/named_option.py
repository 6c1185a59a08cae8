"""NamedOption: an option's value with an optional model name before it."""

import os
import re
from typing import NamedTuple

_NAME = r"[A-Za-z0-9][\w.-]{0,63}"
_NAMED = re.compile(rf"(?P<name>{_NAME})=(?P<value>.+)", re.ASCII)


def is_name(text: str) -> bool:
    """Return whether this is a valid model or adapter name: letters, digits and, after the first, `.`, `_`, `-`."""
    return re.fullmatch(_NAME, text, re.ASCII) is not None


class NamedOption(NamedTuple):
    """`[NAME=]VALUE`; a name has letters, digits and, after the first character, `.`, `_` and `-`."""

    name: str
    value: str

    @classmethod
    def parse(cls, text: str) -> "NamedOption":
        """Parse an option; an existing file or folder with = in its name is a value without a name."""
        match = None if os.path.exists(text) else _NAMED.fullmatch(text)
        return cls(match["name"], match["value"]) if match else cls("", text)
