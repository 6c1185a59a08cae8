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


def random_source(chance: random.Random) -> GrammarSource:
    """A grammar of any kind, which now and then no text follows."""
    match chance.choices(("schema", "regex", "lark", "choice"), weights=(6, 2, 3, 1))[0]:
        case "schema":
            return GrammarSource(GrammarKind.JSON_SCHEMA, (json.dumps(random_schema(chance)),))
        case "regex":
            return GrammarSource(GrammarKind.REGEX, (_regex(chance, 0),))
        case "lark":
            return GrammarSource(GrammarKind.LARK, (_lark(chance),))
    return GrammarSource(GrammarKind.CHOICE, tuple(chance.sample(_WORDS, chance.randint(1, 5))))


def random_schema(chance: random.Random) -> dict[str, Any]:
    """A schema with definitions that its parts, and they themselves, may refer to."""
    names = [f"d{index}" for index in range(chance.randint(0, 2))]
    schema = _schema(chance, 0, names)
    if names:
        schema["$defs"] = {name: _schema(chance, 1, names) for name in names}
    if chance.random() < 0.4:
        schema["x-guidance"] = {"whitespace_flexible": chance.random() < 0.5}
    elif chance.random() < 0.2:
        schema["x-guidance"] = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
    return schema


def _schema(chance: random.Random, depth: int, names: list[str]) -> dict[str, Any]:
    flat, nested = (_string, _number, _enum, _constant), (_array, _array, _array, _object, _object, _any_of)
    kinds = nested if depth == 0 else flat if depth >= _MOST_DEEP else (*flat, *nested)
    if names and depth and chance.random() < 0.25:
        return {"$ref": f"#/$defs/{chance.choice(names)}"}
    return chance.choice(kinds)(chance, depth + 1, names)


def _string(chance: random.Random, _depth: int, _names: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    match chance.randrange(6):
        case 0 | 5:
            schema["minLength"] = chance.randint(0, 2)
            schema["maxLength"] = schema["minLength"] + chance.randint(0, 3)
        case 1:
            schema["pattern"] = chance.choice(_PATTERNS)
        case 2:
            schema["format"] = chance.choice(_FORMATS)
        case 3:
            schema["maxLength"] = chance.randint(0, 4)
    return schema


def _number(chance: random.Random, _depth: int, _names: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": chance.choice(("integer", "number", "boolean", "null"))}
    if schema["type"] in {"integer", "number"} and chance.random() < 0.6:
        schema["minimum"] = chance.randint(-20, 20)
        schema["maximum"] = schema["minimum"] + chance.randint(1, 300)
    elif schema["type"] == "integer" and chance.random() < 0.3:
        schema["multipleOf"] = chance.choice((2, 3, 5))
    return schema


def _enum(chance: random.Random, _depth: int, _names: list[str]) -> dict[str, Any]:
    return {"enum": chance.sample([*_WORDS, 1, 2.5, None, True, [1, 2], {"a": "b"}], chance.randint(1, 5))}


def _constant(chance: random.Random, _depth: int, _names: list[str]) -> dict[str, Any]:
    return {"const": chance.choice([*_WORDS, 12, None, [1], {"a": ["b", 2]}])}


def _array(chance: random.Random, depth: int, names: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": _schema(chance, depth, names)}
    if chance.random() < 0.5:
        schema["minItems"] = chance.randint(0, 2)
    if chance.random() < 0.7:
        schema["maxItems"] = schema.get("minItems", 0) + chance.randint(0, 2)
    if chance.random() < 0.2:
        schema["prefixItems"] = [_schema(chance, depth, names) for _ in range(chance.randint(1, 2))]
    return schema


def _object(chance: random.Random, depth: int, names: list[str]) -> dict[str, Any]:
    properties = {name: _schema(chance, depth, names) for name in chance.sample("abct", chance.randint(1, 3))}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema["required"] = [name for name in properties if chance.random() < 0.6]
    if chance.random() < 0.7:
        schema["additionalProperties"] = False if chance.random() < 0.7 else _schema(chance, depth, names)
    return schema


def _any_of(chance: random.Random, depth: int, names: list[str]) -> dict[str, Any]:
    return {"anyOf": [_schema(chance, depth, names) for _ in range(chance.randint(2, 3))]}


def _regex(chance: random.Random, depth: int) -> str:
    if depth > _MOST_DEEP:
        return chance.choice(_CLASSES)
    match chance.randrange(5):
        case 0:
            return "(" + "|".join(_regex(chance, depth + 1) for _ in range(2)) + ")"
        case 1:
            return f"({_regex(chance, depth + 1)}){chance.choice(('*', '+', '?', '{1,3}', '{2}'))}"
        case 2:
            return chance.choice(_CLASSES)
    return "".join(_regex(chance, depth + 1) for _ in range(chance.randint(2, 3)))


def _lark(chance: random.Random) -> str:
    """Rules that refer to later ones, and to earlier ones behind a terminal; terminals and what they are bounded by."""
    count = chance.randint(2, 4)
    rules = ["start: r0"]
    for index in range(count):
        alternatives = [_sequence(chance, index, count) for _ in range(chance.randint(1, 3))]
        rules.append(f"r{index}: {' | '.join([*alternatives, _terminal(chance)])}")
    rules += [f"t{index}{_attributes(chance)}: /{_slashed(_regex(chance, 1))}/" for index in range(3)]
    rules += ['V: "v" /[0-9]{1,3}/', "W: /[a-c]+/"]
    if chance.random() < 0.3:
        rules.append("%ignore / +/")
    return "\n".join(rules) + "\n"


def _sequence(chance: random.Random, index: int, count: int) -> str:
    later = [f"r{other}" for other in range(index + 1, count)]
    parts = [_terminal(chance)]
    for _ in range(chance.randint(1, 3)):
        parts.append(chance.choice([*later, f"r{chance.randrange(count)}", _terminal(chance), _terminal(chance)]))
    return " ".join(part + chance.choice(("", "", "", "?", "*", "{1,2}")) for part in parts[1:-1] or parts)


def _terminal(chance: random.Random) -> str:
    return chance.choice((json.dumps(chance.choice(_WORDS), ensure_ascii=False), "t0", "t1", "t2", "V", "W"))


def _attributes(chance: random.Random) -> str:
    return chance.choice(("", "", "", "[max_tokens=2]", "[max_tokens=3]", '[suffix=";"]', "[capture]", "[lazy]"))


def _slashed(regex: str) -> str:
    return regex.replace("/", "\\/")
