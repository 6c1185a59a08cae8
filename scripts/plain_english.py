"""`python -m scripts.plain_english [PATH…]`: report words of the old dialect, public docstrings that say nothing, and
comments of native code that begin with a question word.

Every tracked text is read, or only those at or below the paths. Of the tests' modules only comments and docstrings are,
since their other strings are test data; the name of a test may not be long.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
_IN_FRONT = r"(?:an?|the) (?:\w+ )?(?:proxy|gateway|balancer|router)"
_INSTEAD = {
    r"told": "sent, reported, given, or the noun itself",
    rf"(?<!fall\s)(?<!falls\s)(?<!fallen\s)(?<!left\s)behind(?! {_IN_FRONT})": "after",
    r"who(?:m)?ever": "the client, the caller, each request",
    r"of (?:no )?use": "in use, or useful",
    r"of (?:which|whom)": "a sentence of its own, or 'whose'",
    r"g(?:oes|one|o) on with": "continues with",
    r"who has an?": "the subject itself",
}
_GAP = r"[\s#/*]+"  # between two words, which may stand in two lines of a comment
_DIALECT = [
    (re.compile(rf"\b(?:{words.replace(' ', _GAP)})\b", re.IGNORECASE), advice) for words, advice in _INSTEAD.items()
]
_NOT_OURS = re.compile(
    r"LICENSE|^models/demo/|^models/demo_tasks\.toml|^docs/pictures/|\.(?:json|binpb|safetensors|gz|sum|png|svg)$"
    r"|^clients/python/outrider/v1/|^benchmarks/prompts/|^scripts/plain_english\.py$|^tests/outsiders/node/"
)
_FEWEST_WORDS = 3  # of a public docstring
_NATIVE_SUFFIXES = {".h", ".cuh", ".cpp", ".cu"}
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_COMMENT = re.compile(r"(?P<code>.*?)//[/!]?<?\s*(?P<word>\w*)")
_PUZZLING = {"What", "Of", "Where"}  # as the first word of a comment
_LONGEST_NAME = 60  # of a test


def main() -> int:
    """Print each fault as `path:line: text`; the exit code is 1 if there are any."""
    faults = [fault for path in _tracked(sys.argv[1:]) for fault in faults_in(path)]
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


def faults_in(path: Path) -> Iterator[str]:
    """What is wrong in one file, the path relative to the repository."""
    text = (ROOT / path).read_text()
    is_of_tests = path.suffix == ".py" and "tests" in path.parts
    prose = _prose(text) if is_of_tests else text
    for pattern, advice in _DIALECT:
        for found in pattern.finditer(prose):
            number = prose.count("\n", 0, found.start()) + 1
            yield f"{path}:{number}: say {advice} instead of {found[0]!r}"
    if path.suffix == ".py":
        yield from _short_docstrings(path, ast.parse(text))
    if "native" in path.parts and path.suffix in _NATIVE_SUFFIXES:
        yield from _puzzling_comments(path, text)
    if is_of_tests:
        yield from _long_names(path, ast.parse(text))


def _prose(text: str) -> str:
    """The comments and docstrings of a module in their lines, and nothing else."""
    lines = text.split("\n")
    kept = [""] * len(lines)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            kept[node.lineno - 1 : node.end_lineno] = lines[node.lineno - 1 : node.end_lineno]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            kept[token.start[0] - 1] = token.string
    return "\n".join(kept)


def _long_names(path: Path, module: ast.Module) -> Iterator[str]:
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in functions:
        if node.name.startswith("test_") and (length := len(node.name)) > _LONGEST_NAME:
            yield f"{path}:{node.lineno}: the name {node.name} has {length} characters, {_LONGEST_NAME} at most"


def _short_docstrings(path: Path, module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            docstring = ast.get_docstring(node)
            if docstring is not None and len(docstring.split()) < _FEWEST_WORDS:
                yield f"{path}:{node.lineno}: the docstring of {node.name} says nothing: {docstring!r}"


def _puzzling_comments(path: Path, text: str) -> Iterator[str]:
    in_block = False  # the line before is a comment as a whole
    for number, line in enumerate(text.splitlines(), start=1):
        comment = _COMMENT.match(_STRING.sub('""', line))
        is_whole_line = comment is not None and not comment["code"].strip()
        if comment is not None and comment["word"] in _PUZZLING and not (in_block and is_whole_line):
            yield f"{path}:{number}: a comment begins with a subject, not with {comment['word']!r}"
        in_block = is_whole_line


def _tracked(chosen: list[str]) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "--", *chosen], cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(name) for name in listed.stdout.splitlines() if not _NOT_OURS.search(name)]


if __name__ == "__main__":
    sys.exit(main())
