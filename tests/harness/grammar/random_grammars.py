"""Random grammars: schemas, regular expressions and Lark grammars, each from a seed."""

import json
import random
from typing import Any

from services.engine.grammar.source import GrammarKind, GrammarSource

_WORDS = ("a", "ab", "abc", "b", "true", "né", "x y", "1", "-1.5", ",", "]", '"')
_CLASSES = ("[a-c]", "[ab]", "[0-9]", '[^\\n"]', ".", "[a-z ]", "\\d", "(?i:ab)", "[é-ü]")
_PATTERNS = ("^[a-c]{1,3}$", "^(ab|a)*$", "^[0-9]{2}-[a-z]?$", "b", "^a.*b$")
_FORMATS = ("date", "uuid", "ipv4", "time")
_MOST_DEEP = 3


def random_source(rng: random.Random) -> GrammarSource:
    """A grammar of any kind, which now and then no text follows."""
    match rng.choices(("schema", "regex", "lark", "choice"), weights=(6, 2, 3, 1))[0]:
        case "schema":
            return GrammarSource(GrammarKind.JSON_SCHEMA, (json.dumps(random_schema(rng)),))
        case "regex":
            return GrammarSource(GrammarKind.REGEX, (_regex(rng, 0),))
        case "lark":
            return GrammarSource(GrammarKind.LARK, (_lark(rng),))
    return GrammarSource(GrammarKind.CHOICE, tuple(rng.sample(_WORDS, rng.randint(1, 5))))


def random_schema(rng: random.Random) -> dict[str, Any]:
    """A schema with definitions that its parts, and they themselves, may refer to."""
    names = [f"d{index}" for index in range(rng.randint(0, 2))]
    schema = _schema(rng, 0, names)
    if names:
        schema["$defs"] = {name: _schema(rng, 1, names) for name in names}
    if rng.random() < 0.4:
        schema["x-guidance"] = {"whitespace_flexible": rng.random() < 0.5}
    elif rng.random() < 0.2:
        schema["x-guidance"] = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
    return schema


def _schema(rng: random.Random, depth: int, names: list[str]) -> dict[str, Any]:
    flat, nested = (_string, _number, _enum, _constant), (_array, _array, _array, _object, _object, _any_of)
    kinds = nested if depth == 0 else flat if depth >= _MOST_DEEP else (*flat, *nested)
    if names and depth and rng.random() < 0.25:
        return {"$ref": f"#/$defs/{rng.choice(names)}"}
    return rng.choice(kinds)(rng, depth + 1, names)


def _string(rng: random.Random, _depth: int, _names: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    match rng.randrange(6):
        case 0 | 5:
            schema["minLength"] = rng.randint(0, 2)
            schema["maxLength"] = schema["minLength"] + rng.randint(0, 3)
        case 1:
            schema["pattern"] = rng.choice(_PATTERNS)
        case 2:
            schema["format"] = rng.choice(_FORMATS)
        case 3:
            schema["maxLength"] = rng.randint(0, 4)
    return schema


def _number(rng: random.Random, _depth: int, _names: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": rng.choice(("integer", "number", "boolean", "null"))}
    if schema["type"] in {"integer", "number"} and rng.random() < 0.6:
        schema["minimum"] = rng.randint(-20, 20)
        schema["maximum"] = schema["minimum"] + rng.randint(1, 300)
    elif schema["type"] == "integer" and rng.random() < 0.3:
        schema["multipleOf"] = rng.choice((2, 3, 5))
    return schema


def _enum(rng: random.Random, _depth: int, _names: list[str]) -> dict[str, Any]:
    return {"enum": rng.sample([*_WORDS, 1, 2.5, None, True, [1, 2], {"a": "b"}], rng.randint(1, 5))}


def _constant(rng: random.Random, _depth: int, _names: list[str]) -> dict[str, Any]:
    return {"const": rng.choice([*_WORDS, 12, None, [1], {"a": ["b", 2]}])}


def _array(rng: random.Random, depth: int, names: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": _schema(rng, depth, names)}
    if rng.random() < 0.5:
        schema["minItems"] = rng.randint(0, 2)
    if rng.random() < 0.7:
        schema["maxItems"] = schema.get("minItems", 0) + rng.randint(0, 2)
    if rng.random() < 0.2:
        schema["prefixItems"] = [_schema(rng, depth, names) for _ in range(rng.randint(1, 2))]
    return schema


def _object(rng: random.Random, depth: int, names: list[str]) -> dict[str, Any]:
    properties = {name: _schema(rng, depth, names) for name in rng.sample("abct", rng.randint(1, 3))}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema["required"] = [name for name in properties if rng.random() < 0.6]
    if rng.random() < 0.7:
        schema["additionalProperties"] = False if rng.random() < 0.7 else _schema(rng, depth, names)
    return schema


def _any_of(rng: random.Random, depth: int, names: list[str]) -> dict[str, Any]:
    return {"anyOf": [_schema(rng, depth, names) for _ in range(rng.randint(2, 3))]}


def _regex(rng: random.Random, depth: int) -> str:
    if depth > _MOST_DEEP:
        return rng.choice(_CLASSES)
    match rng.randrange(5):
        case 0:
            return "(" + "|".join(_regex(rng, depth + 1) for _ in range(2)) + ")"
        case 1:
            return f"({_regex(rng, depth + 1)}){rng.choice(('*', '+', '?', '{1,3}', '{2}'))}"
        case 2:
            return rng.choice(_CLASSES)
    return "".join(_regex(rng, depth + 1) for _ in range(rng.randint(2, 3)))


def _lark(rng: random.Random) -> str:
    """Rules that refer to later ones, and to earlier ones after a terminal; terminals and their bounds."""
    count = rng.randint(2, 4)
    rules = ["start: r0"]
    for index in range(count):
        alternatives = [_sequence(rng, index, count) for _ in range(rng.randint(1, 3))]
        rules.append(f"r{index}: {' | '.join([*alternatives, _terminal(rng)])}")
    rules += [f"t{index}{_attributes(rng)}: /{_slashed(_regex(rng, 1))}/" for index in range(3)]
    rules += ['V: "v" /[0-9]{1,3}/', "W: /[a-c]+/"]
    if rng.random() < 0.3:
        rules.append("%ignore / +/")
    return "\n".join(rules) + "\n"


def _sequence(rng: random.Random, index: int, count: int) -> str:
    later = [f"r{other}" for other in range(index + 1, count)]
    parts = [_terminal(rng)]
    for _ in range(rng.randint(1, 3)):
        parts.append(rng.choice([*later, f"r{rng.randrange(count)}", _terminal(rng), _terminal(rng)]))
    return " ".join(part + rng.choice(("", "", "", "?", "*", "{1,2}")) for part in parts[1:-1] or parts)


def _terminal(rng: random.Random) -> str:
    return rng.choice((json.dumps(rng.choice(_WORDS), ensure_ascii=False), "t0", "t1", "t2", "V", "W"))


def _attributes(rng: random.Random) -> str:
    return rng.choice(("", "", "", "[max_tokens=2]", "[max_tokens=3]", '[suffix=";"]', "[capture]", "[lazy]"))


def _slashed(regex: str) -> str:
    return regex.replace("/", "\\/")
