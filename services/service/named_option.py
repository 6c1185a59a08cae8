"""NamedOption: an option's value that may have a model's name before it."""

import os
import re
from typing import NamedTuple

_NAME = r"[A-Za-z0-9][\w.-]{0,63}"
_NAMED = re.compile(rf"(?P<name>{_NAME})=(?P<value>.+)", re.ASCII)


def is_name(text: str) -> bool:
    """Whether a model or an adapter may be called so: letters, digits, and `.`, `_` and `-` behind the first."""
    return re.fullmatch(_NAME, text, re.ASCII) is not None


class NamedOption(NamedTuple):
    """`[NAME=]VALUE`, where a name has letters, digits, and `.`, `_` and `-` behind the first of them."""

    name: str
    value: str

    @classmethod
    def parse(cls, text: str) -> "NamedOption":
        """What an option says; a file or folder that has = in its own name is no name and value."""
        match = None if os.path.exists(text) else _NAMED.fullmatch(text)
        return cls(match["name"], match["value"]) if match else cls("", text)
