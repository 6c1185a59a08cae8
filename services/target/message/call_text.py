"""Call texts: reads JSON texts in a tool call."""

import json


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


DECODER = json.JSONDecoder(parse_constant=_refuse)
"""Reads JSON without NaN and the infinities, which Python's own reads too."""


def read_text(text: str) -> str:
    """The string in a JSON text.

    Raises ValueError for other values, and UnicodeEncodeError, a ValueError, for half a surrogate pair, which JSON may
    escape.
    """
    value = DECODER.decode(text)
    if not isinstance(value, str):
        raise ValueError(f"{text[:64]} is no string")
    value.encode()
    return value


def read_arguments(text: str) -> str:
    """The object in the JSON text of arguments; some models write null for none, or the object as a JSON string.

    Raises ValueError if there is no object.
    """
    if text.startswith("{"):
        return text
    inner = "null" if text == "null" else read_text(text)
    try:
        value = DECODER.decode(inner) if inner.strip() else None
    except RecursionError as error:
        raise ValueError("they are nested too deeply") from error
    if value is None:
        return "{}"
    if not isinstance(value, dict):
        raise ValueError("its arguments are no object")
    return inner
