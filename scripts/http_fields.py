"""Write docs/use/http-fields.md from the gateway's OpenAPI document: `python -m scripts.http_fields [FILE]`."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.gateway_document import gateway_document
from services.gateway.generation.handling import HANDLING, SAME_AS

ROOT = Path(__file__).parents[1]
_HEAD = """# Fields of HTTP requests

Written by `make docs` from the code: what each path does with each field at the top level of a request.

- *done*: the field has its effect; its type is in the [reference](http-reference.md).
- *passed over*: the field is accepted without effect.
- *refused*: only a value that asks for nothing is accepted, such as null, false or an empty list.
- An empty cell, and every field that is not in the table: unknown; only null is accepted.
"""


def main() -> None:
    """Write the page."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "use" / "http-fields.md"
    out.write_text("\n".join([_HEAD, *_table(_fields_by_path(gateway_document())), ""]))


def _fields_by_path(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the fields of the request of each path that takes one."""
    fields = {}
    for path, methods in document["paths"].items():
        if "post" in methods:
            schema = methods["post"]["requestBody"]["content"]["application/json"]["schema"]
            fields[path] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"]
    return fields


def _table(fields: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield f"| field | {' | '.join(path.removeprefix('/v1/').removeprefix('/') for path in fields)} | same as |"
    yield "|---" * (len(fields) + 2) + "|"
    for name in sorted({name for of_path in fields.values() for name in of_path}):
        known = [of_path.get(name) for of_path in fields.values()]
        cells = ["" if field is None else field.get(HANDLING, "done") for field in known]
        names = {f"`{field[SAME_AS]}`" for field in known if field is not None and SAME_AS in field}
        yield f"| `{name}` | {' | '.join(cells)} | {', '.join(sorted(names))} |"


if __name__ == "__main__":
    main()
