"""XmlForm: how a family writes a call whose arguments are bare texts between XML marks."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlForm:
    """A call is the name of the tool, its arguments, and an end mark; white space may be between any of them.

    `name` matches the text up to the first argument, with a group `name`; it begins with `before_name`. `argument`
    matches the text before a value, with a group `key`; it begins with `before_key`. `value_end` follows a value.
    A grammar writes an argument as `before_key`, its name, `after_key`, its value and `after_value`.
    """

    name: re.Pattern[str]
    before_name: str
    argument: re.Pattern[str]
    value_end: str
    end: str
    other: re.Pattern[str] | None = None  # matches a beginning that cannot become a call
    before_key: str
    after_key: str
    after_value: str

    @property
    def has_lines(self) -> bool:
        """Whether a value is written on lines of its own."""
        return self.after_value.startswith("\n")
