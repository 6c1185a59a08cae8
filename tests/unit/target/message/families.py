"""How each family writes calls and reasoning, in tests."""

import json
from collections.abc import Mapping
from typing import Any

from services.target.message.marked_call_reader import is_bare_key
from services.target.message.syntax import ARGUMENTS, NAME, REASONING_SYNTAXES, TOOL_SYNTAXES, MessageSyntax


def reasoning_of(family: str) -> str:
    """The name of the syntax of a family's reasoning."""
    others = {"mistral": "mistral", "mistral_args": "mistral", "seed_oss": "seed"}
    return others.get(family, family if family in REASONING_SYNTAXES else "think")


def syntax_of(family: str) -> MessageSyntax:
    """Both of a family's syntaxes, without the tokens of any vocabulary."""
    return MessageSyntax(TOOL_SYNTAXES.get(family), REASONING_SYNTAXES[reasoning_of(family)], {}, frozenset())


def written_call(family: str, name: str, arguments: Mapping[str, Any]) -> str:
    """A call as a family's model writes it, without what is before the first one or after the last."""
    tools = TOOL_SYNTAXES[family]
    written = json.dumps(arguments)
    if (form := tools.xml) is not None:
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
        written = "".join(
            f"{form.before_key}{key}{form.after_key}{value}{form.after_value}" for key, value in texts.items()
        )
    if tools.string_mark:
        written = _marked(arguments, tools.string_mark)
    return tools.call.replace(NAME, name).replace(ARGUMENTS, written)


def _marked(value: object, mark: str) -> str:
    match value:
        case str():
            return f"{mark}{value}{mark}"
        case list():
            return f"[{','.join(_marked(part, mark) for part in value)}]"
        case dict():
            keys = {key: key if is_bare_key(key) else _marked(key, mark) for key in value}
            return f"{{{','.join(f'{keys[key]}:{_marked(part, mark)}' for key, part in value.items())}}}"
    return json.dumps(value)


def call_of_f(family: str, value: int | str = 1) -> str:
    """A call of the tool `f` as a family's model writes it, with an argument."""
    tools = TOOL_SYNTAXES[family]
    return tools.opening + written_call(family, "f", {"a": value}) + tools.closing
