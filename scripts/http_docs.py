"""Write docs/use/http-reference.md from the gateway's OpenAPI document: `python -m scripts.http_docs [FILE]`."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.gateway_document import gateway_document

ROOT = Path(__file__).parents[1]
_HEAD = """# HTTP reference

Written by `make docs` from what a gateway serves at `/openapi.json`: every path, and every field of its request. What
the APIs leave out, how streams go on, errors and keys are on [the page about HTTP](http.md).
"""
_BOUNDS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "like `{}`",
}


def main() -> None:
    """Write the page."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "use" / "http-reference.md"
    document = gateway_document()
    out.write_text("\n".join([_HEAD, *_paths(document), *_schemas(document)]))


def _paths(document: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for path, methods in document["paths"].items():
        for method, called in methods.items():
            if method in ("get", "post"):
                body = called.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
                events = " or events" if "text/event-stream" in called["responses"]["200"]["content"] else ""
                taken = f"{_type(body)} → an object{events}" if body else ""
                rows.append(f"| `{method.upper()} {path}` | {taken} | {_line(called['summary'])} |")
    yield "\n".join(["| path | request | |", "|---|---|---|", *rows, ""])


def _schemas(document: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines = [f"## {name}", "", _line(schema.get("description", "")), ""]
        if fields := schema.get("properties"):
            needed = schema.get("required", ())
            lines += ["| field | type | |", "|---|---|---|"]
            lines += [f"| `{key}` | {_type(field)} | {_note(field, key in needed)} |" for key, field in fields.items()]
            lines += [""]
        elif "enum" in schema or "type" in schema:
            lines += [_type(schema), ""]
        yield "\n".join(lines)


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if kinds := schema.get("anyOf") or schema.get("oneOf"):
        named = [_type(kind) for kind in kinds if kind.get("type") != "null"]
        return " or ".join(dict.fromkeys(named))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    return str(schema.get("type", "any"))


def _note(schema: Mapping[str, Any], is_needed: bool) -> str:
    parts = ["needed"] * is_needed
    for kind in (schema, *schema.get("anyOf", ())):
        parts += [words.format(_cell(str(kind[name]))) for name, words in _BOUNDS.items() if name in kind]
    if (default := schema.get("default")) is not None:
        parts.append(f"`{_cell(json.dumps(default))}` unless said")
    return "; ".join([*parts, *filter(None, [_line(schema.get("description", ""))])])


def _line(text: str) -> str:
    return _cell(re.sub(r"\s+", " ", text).strip())


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    main()
