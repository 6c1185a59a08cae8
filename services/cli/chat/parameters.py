"""Parameters: the sampling parameters of a chat, under the names of the client's options."""

import json
from collections.abc import Callable
from typing import Any, cast, get_args, get_type_hints

from outrider import GenerateOptions

_NOT_HERE = ("top_candidates", "num_samples")
_HINTS = get_type_hints(GenerateOptions)


def _read_flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _read_names(text: str) -> list[str]:
    return text.split(",")


_KINDS: dict[str, Callable[[str], Any]] = {
    **{
        name: get_args(hint)[0]
        for name, hint in _HINTS.items()
        if hint in (int | None, float | None) and name not in _NOT_HERE
    },
    **dict.fromkeys(
        (
            *("stop", "banned_strings", "regex", "json_schema", "lark", "speculation", "cache_salt", "lora"),
            "negative_prompt",
        ),
        str,
    ),
    **dict.fromkeys(("lookup", "prefix_cache", "ignore_eos", "prefer_end"), _read_flag),
    "template_variables": json.loads,
    "samplers": _read_names,
}
_WORDS: dict[Callable[[str], Any], str] = {
    int: "a whole number",
    float: "a number",
    _read_flag: "true or false",
    json.loads: "JSON",
}


class Parameters:
    """The parameters that were set by "name=value"; the server decides all others, and checks the values."""

    def __init__(self, model: str | None = None) -> None:
        """`model` names a model of the server; None: its first."""
        self._values: dict[str, Any] = {} if model is None else {"model": model}

    def set(self, assignment: str) -> None:
        """Set a parameter by "name=value"; "name=" unsets it. Raises ValueError for any other text."""
        name, equals, text = assignment.partition("=")
        if name not in _KINDS or not equals:
            raise ValueError(f"{assignment!r} is not NAME=VALUE, with one of these names: {', '.join(sorted(_KINDS))}")
        if not text:
            self._values.pop(name, None)
            return
        kind = _KINDS[name]
        try:
            self._values[name] = kind(text)
        except ValueError as error:
            raise ValueError(f"{name} is {text!r}; it must be {_WORDS[kind]}") from error

    @property
    def options(self) -> GenerateOptions:
        """The parameters as options of the client."""
        return cast(GenerateOptions, dict(self._values))

    def __str__(self) -> str:
        return " ".join(f"{name}={json.dumps(value)}" for name, value in self._values.items())
