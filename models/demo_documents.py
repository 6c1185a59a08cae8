"""From what a published model wrote to the documents that are trained on and those that are held out."""

import ast
import gzip
import json
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from demo_tasks import held_out_words, list_words, task

TRAINED, HELD_OUT = "trained.jsonl.gz", "heldout.jsonl"
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FENCE = "```"
RUN_OF_LINES = 3
SHORTEST_LINE = 10  # characters; shorter ones say nothing about where a text comes from
MAX_HELD_OUT_SHARE = 0.5  # of a held-out document's runs of lines, in any other document


@dataclass(frozen=True)
class Documents:
    """Texts by the numbers of their tasks: those that are trained on, and those that are not."""

    trained: dict[int, str]
    heldout: dict[int, str]


def divided(written: Iterable[dict[str, object]]) -> Documents:
    """The whole and valid documents, each text once, divided by the words of their tasks."""
    trained: dict[int, str] = {}
    heldout: dict[int, str] = {}
    seen: set[str] = set()
    for document in sorted(written, key=lambda one: int(str(one["number"]))):
        number, text = int(str(document["number"])), cleaned(str(document["text"]))
        if document["whole"] and text and text not in seen:
            seen.add(text)
            (heldout if task(number).is_held_out else trained)[number] = text
    return Documents(strangers(trained, heldout), heldout)


def cleaned(answer: str) -> str:
    """The imports, functions and classes with which an answer begins, or nothing if they are not valid Python."""
    code = answer.split(FENCE)[1].removeprefix("python") if answer.startswith(FENCE) else answer
    code = "\n".join(line.rstrip() for line in code.strip().splitlines())
    try:
        kept = _definitions(ast.parse(code))
    except (SyntaxError, ValueError):
        return ""
    if not code.isascii() or not any(isinstance(node, DEFINITIONS) for node in kept):
        return ""
    return "\n".join(code.splitlines()[_start(kept[0]) - 1 : kept[-1].end_lineno]) + "\n"


def _definitions(module: ast.Module) -> list[ast.stmt]:
    """What stands in front of the first other statement, without imports of all names of a module."""
    kept: list[ast.stmt] = []
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*" and not kept:
            continue
        if not isinstance(node, (ast.Import, ast.ImportFrom, *DEFINITIONS)):
            break
        kept.append(node)
    return kept


def _start(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, DEFINITIONS) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def strangers(documents: dict[int, str], heldout: dict[int, str]) -> dict[int, str]:
    """The documents that do not repeat much of a held-out one."""
    secret = [runs for text in heldout.values() if (runs := _runs(text))]
    holders: dict[str, list[int]] = {}
    for index, runs in enumerate(secret):
        for run in runs:
            holders.setdefault(run, []).append(index)

    def is_stranger(text: str) -> bool:
        shared: dict[int, int] = {}
        for run in _runs(text):
            for index in holders.get(run, ()):
                shared[index] = shared.get(index, 0) + 1
        return all(count <= MAX_HELD_OUT_SHARE * len(secret[index]) for index, count in shared.items())

    return {number: text for number, text in documents.items() if is_stranger(text)}


def _runs(text: str) -> set[str]:
    """Every run of a few lines, among the lines that are long enough to be distinctive."""
    lines = [line for line in map(str.strip, text.splitlines()) if len(line) >= SHORTEST_LINE]
    return {"\n".join(lines[i : i + RUN_OF_LINES]) for i in range(len(lines) - RUN_OF_LINES + 1)}


def renamed(documents: dict[int, str], seed: int) -> dict[int, str]:
    """The documents that are about a list of one kind of thing, about another kind: nothing else in them changes."""
    changed: dict[int, str] = {}
    for number, text in documents.items():
        draw = random.Random(f"{seed} {number}")
        for words in list_words():
            for old in words:
                if old in task(number).words:
                    new = draw.choice([word for word in words if word != old and word not in held_out_words()])
                    changed[number] = _exchanged(
                        _exchanged(changed.get(number, text), old, new), old.title(), new.title()
                    )
    return {number: text for number, text in changed.items() if text != documents[number]}


def _exchanged(text: str, old: str, new: str) -> str:
    """A text with one plural instead of another, and one singular, also as parts of names."""
    for before, after in ((old, new), (_singular(old), _singular(new))):
        text = re.sub(rf"(?<![A-Za-z]){before}(?![a-z])", after, text)
    return text


def _singular(plural: str) -> str:
    return plural[:-3] + "y" if plural.endswith("ies") else plural[:-1]


def read_written(path: Path) -> list[dict[str, object]]:
    """What write_demo_corpus.py wrote; a last line that is not whole is left out."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def save_documents(documents: Documents, folder: Path) -> None:
    """Write both kinds of documents; the same documents give the same bytes."""
    (folder / HELD_OUT).write_text(_as_lines(documents.heldout), encoding="utf-8")
    (folder / TRAINED).write_bytes(gzip.compress(_as_lines(documents.trained).encode(), mtime=0))


def load_documents(folder: Path) -> Documents:
    """Read what save_documents wrote."""
    trained = gzip.decompress((folder / TRAINED).read_bytes()).decode()
    return Documents(_documents(trained), _documents((folder / HELD_OUT).read_text(encoding="utf-8")))


def _as_lines(documents: dict[int, str]) -> str:
    return "".join(json.dumps({"number": number, "text": text}) + "\n" for number, text in documents.items())


def _documents(lines: str) -> dict[int, str]:
    return {document["number"]: document["text"] for document in map(json.loads, lines.splitlines())}
