"""Metadata: what the contract has in the metadata of a call in place of its request."""

import re
from collections.abc import Iterable

from services.service.validation import Violations

_PRIORITY, _RANK, _KEY = "openengine-priority", "openengine-target-dp-rank", "openengine-routing-key"
_NUMBERS = {_PRIORITY: "a decimal number of 32 bits with a sign", _RANK: "0: there is one rank"}
_DECIMAL = re.compile(r"[+-]?\d{1,10}", re.ASCII)
_MOST = 1 << 31
_MOST_PRIORITY = 10  # of ours, in both directions


def read_priority(metadata: Iterable[tuple[str, str | bytes]], found: Violations) -> int:
    """The priority of a call, 0 without one; what is not valid is added to `found`.

    Priorities beyond ours are the highest or the lowest one. The routing key is for those before this server.
    """
    values: dict[str, str] = {}
    for key, value in metadata:
        if key in (_PRIORITY, _RANK, _KEY):
            if key in values:
                found.add(key, "is given more than once", "one value")
            values[key] = str(value)
    priority = _read_number(values, _PRIORITY, range(-_MOST, _MOST), found)
    _read_number(values, _RANK, range(1), found)
    if values.get(_KEY) == "":
        found.add(_KEY, "is empty", "a text")
    return max(-_MOST_PRIORITY, min(priority, _MOST_PRIORITY))


def _read_number(values: dict[str, str], key: str, allowed: range, found: Violations) -> int:
    if (text := values.get(key)) is None:
        return 0
    if not _DECIMAL.fullmatch(text) or int(text) not in allowed:
        found.add(key, f"is {text[:64]!r}", _NUMBERS[key])
        return 0
    return int(text)
