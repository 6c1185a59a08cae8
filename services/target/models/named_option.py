"""NamedOption: an option's value that may have a model's name before it."""

import os
import re
from typing import NamedTuple

_NAMED = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]{0,63})=(?P<value>.+)", re.ASCII)


class NamedOption(NamedTuple):
    """`[NAME=]VALUE`, where a name has letters, digits, and `.`, `_` and `-` behind the first of them."""

    name: str
    value: str

    @classmethod
    def parse(cls, text: str) -> "NamedOption":
        """What an option says; a file or folder that has = in its own name is no name and value."""
        match = None if os.path.exists(text) else _NAMED.fullmatch(text)
        return cls(match["name"], match["value"]) if match else cls("", text)
