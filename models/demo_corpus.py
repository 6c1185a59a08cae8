"""The text of the demo models: what a plain Python install brings, its tokenizer and its token streams."""

import ast
import re
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT = "<|endoftext|>"
VOCAB_SIZE = 8192
HELDOUT_LIST = Path(__file__).parent / "demo" / "heldout.txt"
TOPICS = "pydoc_data/topics.py"
TEST_FOLDERS = frozenset({"test", "tests", "idle_test"})
SKIPPED_FOLDERS = frozenset({"site-packages", "__pycache__", "encodings"})
SKIPPED_PREFIXES = ("config-", "_sysconfigdata")  # what the build machine looked like, not library text
MAX_DIGIT_SHARE = 0.12  # above it a file is a table of numbers
WHEELS = "ensurepip/_bundled"  # pip and setuptools, as the library ships them
SKIPPED_WHEEL_FOLDERS = frozenset({"_vendor", "_validate_pyproject"})  # of others, without their licences' texts
RUN_OF_LINES = 3
SHORTEST_LINE = 16  # characters; shorter ones say nothing about where a text comes from
MAX_HELDOUT_SHARE = 0.05  # of a held-out file's runs of lines, in any other document
MAX_SHARED_RUNS = 0.5  # of a document's runs of lines, in those before it

# A word takes its leading space with it, a line break never joins its neighbours, and of an indentation
# all but the last space become one piece. So a prompt may end after any bracket, colon or line break and
# still be cut into the tokens that the model saw in training.
PIECES = r" ?[\p{L}_]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}_]+|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True)
class Corpus:
    """Documents by name: the library with pip and setuptools, its tests, and the held-out files, in neither of them."""

    library: dict[str, str]
    tests: dict[str, str]
    heldout: dict[str, str]


def heldout_names() -> list[str]:
    """Names of the files that no stage may train on."""
    return HELDOUT_LIST.read_text(encoding="utf-8").split()


def load_corpus() -> Corpus:
    """Read what the running interpreter brings, without what repeats a held-out file or an earlier document."""
    library, tests = read_library()
    heldout = {name: library.pop(name) for name in heldout_names()}
    library |= _wheels(Path(sysconfig.get_path("stdlib")) / WHEELS)
    return Corpus(originals(library, heldout), originals(tests, heldout), heldout)


def read_library() -> tuple[dict[str, str], dict[str, str]]:
    """The files of the standard library and those of its test suite."""
    root = Path(sysconfig.get_path("stdlib"))
    library: dict[str, str] = {}
    tests: dict[str, str] = {}
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if _is_skipped(relative):
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        if not _is_table(text):
            (library if TEST_FOLDERS.isdisjoint(relative.parts) else tests)[relative.as_posix()] = text
    library.update(_topics(library.pop(TOPICS)))
    return library, tests


def _wheels(folder: Path) -> dict[str, str]:
    """The source files of the wheels in a folder."""
    texts: dict[str, str] = {}
    for path in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(path) as wheel:
            for name in sorted(wheel.namelist()):
                if name.endswith(".py") and SKIPPED_WHEEL_FOLDERS.isdisjoint(name.split("/")):
                    text = wheel.read(name).decode("utf-8", errors="ignore")
                    if not _is_table(text):
                        texts[f"{path.name}:{name}"] = text
    return texts


def originals(documents: dict[str, str], heldout: dict[str, str]) -> dict[str, str]:
    """The documents that repeat neither a held-out file nor, for the most part, those before them."""
    secret = [_runs(text) for text in heldout.values()]
    seen: set[str] = set()
    kept: dict[str, str] = {}
    for name, text in documents.items():
        runs = _runs(text)
        if any(len(runs & those) > MAX_HELDOUT_SHARE * len(those) for those in secret):
            continue
        if len(runs & seen) <= MAX_SHARED_RUNS * len(runs):
            kept[name] = text
            seen |= runs
    return kept


def _runs(text: str) -> set[str]:
    """Every run of a few lines, among the lines that are long enough to be distinctive."""
    lines = [line for line in map(str.strip, text.splitlines()) if len(line) >= SHORTEST_LINE]
    return {"\n".join(lines[i : i + RUN_OF_LINES]) for i in range(len(lines) - RUN_OF_LINES + 1)}


def _is_skipped(relative: Path) -> bool:
    return not SKIPPED_FOLDERS.isdisjoint(relative.parts) or relative.parts[0].startswith(SKIPPED_PREFIXES)


def _is_table(text: str) -> bool:
    """Whether digits and escapes make up so much of the text that it is data, or there is no text at all."""
    dense = re.sub(r"\s", "", text)
    return len(re.findall(r"[0-9\\]", dense)) >= MAX_DIGIT_SHARE * len(dense)


def _topics(source: str) -> dict[str, str]:
    """The prose of the language reference, which pydoc keeps as one dict of strings."""
    assignment = next(node for node in ast.parse(source).body if isinstance(node, ast.Assign))
    topics: dict[str, str] = ast.literal_eval(assignment.value)
    return {f"{TOPICS}:{name}": text for name, text in sorted(topics.items())}


def train_tokenizer() -> Tokenizer:
    """A byte-level BPE without a normaliser: every byte has its token, so any text round-trips.

    It learns from the library without the held-out files.
    """
    library, _ = read_library()
    texts = [text for name, text in library.items() if name not in set(heldout_names())]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encode_documents(tokenizer: Tokenizer, documents: Mapping[Any, str]) -> torch.Tensor:
    """All documents as one stream of token ids, each document after an end-of-text token."""
    end = tokenizer.token_to_id(END_OF_TEXT)
    ids: list[int] = []
    for encoding in tokenizer.encode_batch(list(documents.values())):
        ids.append(end)
        ids.extend(encoding.ids)
    ids.append(end)
    return torch.tensor(ids, dtype=torch.long)


def windows(stream: torch.Tensor, length: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Endless windows of length + 1 tokens: each pass starts at a new offset and visits all in random order."""
    if len(stream) < 2 * length:
        raise ValueError(f"a stream of {len(stream)} tokens is too short for windows of {length}")
    while True:
        offset = int(torch.randint(length, (1,), generator=generator))
        starts = torch.arange(offset, len(stream) - length, length)
        for index in torch.randperm(len(starts), generator=generator).tolist():
            start = int(starts[index])
            yield stream[start : start + length + 1]


def mixed_batches(
    sources: list[tuple[torch.Tensor, float]], rows: int, length: int, generator: torch.Generator
) -> Iterator[torch.Tensor]:
    """Endless batches [rows, length + 1], each row drawn from one of the streams by the weights."""
    streams = [windows(stream, length, generator) for stream, _ in sources]
    weights = torch.tensor([weight for _, weight in sources])
    while True:
        chosen = torch.multinomial(weights, rows, replacement=True, generator=generator)
        yield torch.stack([next(streams[index]) for index in chosen.tolist()])
