"""What the published models are asked: prompts of four tasks, and twenty short texts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider import Message

_ROOT = Path(__file__).parents[2]
SORTED_LISTS = "Write a Python function that merges two sorted lists"


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt, and the options that go with it."""

    prompt: str | list[Message]
    options: dict[str, Any]

    @classmethod
    def chat(cls, text: str, **options: Any) -> "Question":
        """What a user says in a conversation."""
        return cls([Message("user", text)], options)

    @classmethod
    def completion(cls, text: str) -> "Question":
        """The beginning of a text."""
        return cls(text, {"ignore_eos": True})


_CODE = (
    'def binary_search(items, wanted):\n    """Return the index of wanted in sorted items, or -1."""\n',
    'import csv\n\ndef read_table(path):\n    """Return the rows of a CSV file as dictionaries."""\n',
    'class LruCache:\n    """Keeps the values used last."""\n\n    def __init__(self, size):\n',
    "// The n-th Fibonacci number.\nfunction fibonacci(n) {\n",
)
_QUESTIONS = (
    SORTED_LISTS,
    "What is the difference between a process and a thread?",
    "Explain in three sentences why the sky is blue.",
    "How do I undo the last commit in git without losing my changes?",
)
_RECORDS = (
    "Describe the planet Mars as JSON with name, diameter_km, moons and a one-sentence note.",
    "Describe the city of Paris as JSON with name, diameter_km, moons (none) and a one-sentence note.",
    "Describe Jupiter as JSON with name, diameter_km, moons (its four largest) and a one-sentence note.",
    "Describe the Earth as JSON with name, diameter_km, moons and a one-sentence note.",
)
_SCHEMA = (
    '{"type": "object", "properties": {"name": {"type": "string"}, "diameter_km": {"type": "number"}, '
    '"moons": {"type": "array", "items": {"type": "string"}}, "note": {"type": "string"}}, '
    '"required": ["name", "diameter_km", "moons", "note"], "additionalProperties": false}'
)
_DOCUMENTS = {
    "docs/inside/speculation.md": "Summarise this page in a list of its main points.",
    "docs/use/sampling.md": "List the steps of sampling that this page describes, in their order.",
}


def _documents() -> list[Question]:
    return [
        Question.chat(f"{(_ROOT / path).read_text(encoding='utf-8')}\n\n{wish}") for path, wish in _DOCUMENTS.items()
    ]


def tasks() -> dict[str, list[Question]]:
    """Questions by task."""
    return {
        "code completion": [*map(Question.completion, _CODE)],
        "chat": [*map(Question.chat, _QUESTIONS)],
        "JSON": [Question.chat(text, json_schema=_SCHEMA) for text in _RECORDS],
        "long document": _documents(),
    }


SHORT_TEXTS = (
    *_CODE,
    *_QUESTIONS,
    *_RECORDS,
    "The capital of France is",
    "Die Hauptstadt von Frankreich ist",
    "法国的首都是",
    "Il était une fois, dans un pays lointain,",
    "SELECT name, count(*) FROM orders GROUP BY",
    "3.14159265358979 1234567890 0x1F600 \N{GRINNING FACE}",
    '{"name": "Mars", "moons": ["Phobos",',
    "<html>\n  <body>\n\t<p class='a'>  two  spaces </p>\n",
)  # twenty
