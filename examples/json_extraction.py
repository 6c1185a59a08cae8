"""JSON by gRPC: `python json_extraction.py [ADDRESS]`; a grammar holds the answer to the schema, token by token."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["outrider-client"]
# ///

import json
import sys

from outrider import Client

SCHEMA = {
    "type": "object",
    "properties": {
        "language": {"enum": ["Python", "C++", "Go"]},
        "lines": {"type": "integer", "minimum": 0, "maximum": 999},
        "tested": {"type": "boolean"},
    },
    "required": ["language", "lines", "tested"],
    "additionalProperties": False,
    "x-guidance": {"whitespace_flexible": False},  # a small model may otherwise write spaces for ever
}


def main(address: str) -> None:
    """Print what was read."""
    with Client(address) as client:
        result = client.generate("def add(a, b):\n    return a + b\n", json_schema=SCHEMA, max_tokens=80, seed=7)
    print(json.dumps(json.loads(result.text), indent=2))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051")
