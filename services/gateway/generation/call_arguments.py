"""Call arguments: reads the JSON of a tool call's arguments, which may be cut off."""

import json
import math

from pydantic_core import from_json, to_json

from services.gateway.generation.encoded_number import EncodedNumber

_MOST_DIGITS = 308  # of a whole number within float64


def read_arguments(text: str) -> object:
    """Parse arguments; `encode` encodes them again with all their numbers.

    Arguments that are cut off are parsed as far as they go, as Anthropic's client does; a number at the end may lack
    digits.
    """
    try:
        return _read(text)
    except ValueError:
        return _read_cut(text)


def are_whole(text: str) -> bool:
    """Return whether arguments are not cut off."""
    try:
        _read(text)
    except ValueError:
        return False
    return True


def _read(text: str) -> object:
    try:
        return json.loads(text, parse_float=_read_number, parse_int=_read_integer)
    except RecursionError as error:
        raise ValueError("they are nested too deeply") from error


def _read_cut(text: str) -> object:
    try:
        found = from_json(text, allow_partial=True)
    except ValueError:
        return {}
    return from_json(to_json(found, inf_nan_mode="null"))


def _read_number(text: str) -> float | EncodedNumber:
    return EncodedNumber(text) if math.isinf(number := float(text)) else number


def _read_integer(text: str) -> int | EncodedNumber:
    return EncodedNumber(text) if len(text) > _MOST_DIGITS else int(text)
