"""The check of prose in `make lint` works, and a search for the field's word finds the file that implements it."""

from pathlib import Path

import pytest

from scripts.plain_english import ROOT, faults_in

FOUND_IN = {
    "PagedAttention": "services/engine/cache/block_manager.py",
    "LRU": "services/engine/cache/prefix_cache.py",
    "eviction": "services/engine/cache/prefix_cache.py",
    "continuous batching": "services/target/scheduling/scheduler.py",
    "speculative decoding": "services/target/speculation/speculation.py",
    "rejection": "services/target/generation/sampler.py",
    "backpressure": "services/target/sequence/token_stream.py",
    "cancellation": "services/target/generation/engine.py",
    "logit_bias": "native/src/sampling/host/processing.cpp",
    "LoRA": "native/include/outrider/decoder/adapters.h",
}


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("# Whoever asks gets it.", "the client, the caller, each request"),
        ("# It is told at once.", "sent, reported, given, or the noun itself"),
        ("# The tokens behind the first.", "after"),
        ("# A list of which the last counts.", "a sentence of its own, or 'whose'"),
        ("# A list of\n    # which the last counts.", "a sentence of its own, or 'whose'"),
    ],
)
def test_a_word_of_the_dialect_is_found(tmp_path: Path, text: str, advice: str):
    path = tmp_path / "module.py"
    path.write_text(f"x = 1\n{text}\n")
    (fault,) = faults_in(path)
    assert fault.startswith(f"{path}:2: say {advice} instead of")


def test_a_docstring_of_two_words_is_found(tmp_path: Path):
    path = tmp_path / "module.py"
    path.write_text('def public():\n    """Its tokens."""\n\n\ndef _private():\n    """Its tokens."""\n')
    (fault,) = faults_in(path)
    assert fault == f"{path}:1: the docstring of public says nothing: 'Its tokens.'"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("int x;  // What it is.", 1),
        ("int x;\n/// Of all rows,\n/// the first.\nint y;", 2),
        ("// A row.\nint x;\n// Where it begins.", 3),
        ("/// A row.\nint x;  // Of a row.", 2),
    ],
)
def test_a_question_word_at_the_start_of_a_comment_is_found(tmp_path: Path, text: str, number: int):
    path = tmp_path / "native" / "rows.h"
    path.parent.mkdir()
    path.write_text(f"{text}\n")
    (fault,) = faults_in(path)
    assert fault.startswith(f"{path}:{number}: a comment begins with a subject, not with ")


@pytest.mark.parametrize(
    "text", ['throw "see // What it is";', "/// The first row\n/// Of all.", "// Often so.", "int x;  // of a row"]
)
def test_other_native_comments_are_left_alone(tmp_path: Path, text: str):
    path = tmp_path / "native" / "rows.cpp"
    path.parent.mkdir()
    path.write_text(f"{text}\n")
    assert [*faults_in(path)] == []


def test_only_comments_and_docstrings_of_tests_are_read(tmp_path: Path):
    path = tmp_path / "tests" / "module.py"
    path.parent.mkdir()
    path.write_text('"""Whoever asks gets it."""\n\ntold = "Whoever asks gets it."  # It is told of\n# which it is.\n')
    faults = [fault.partition(": ")[2] for fault in faults_in(path)]
    assert [fault.partition(" instead of ")[2] for fault in faults] == ["'told'", "'Whoever'", "'of\\n# which'"]


def test_a_long_name_of_a_test_is_found(tmp_path: Path):
    path = tmp_path / "tests" / "test_module.py"
    path.parent.mkdir()
    name, longer = "test_".ljust(60, "a"), "test_".ljust(61, "b")
    path.write_text(f"def {name}(): ...\n\n\nasync def {longer}(): ...\n")
    assert [*faults_in(path)] == [f"{path}:4: the name {longer} has 61 characters, 60 at most"]


@pytest.mark.parametrize("text", ["# Clients behind a proxy.", "# It has fallen behind.", "# token_told is a name."])
def test_other_uses_are_left_alone(tmp_path: Path, text: str):
    path = tmp_path / "module.py"
    path.write_text(f"{text}\n")
    assert [*faults_in(path)] == []


@pytest.mark.parametrize(("word", "path"), FOUND_IN.items())
def test_a_search_for_the_fields_word_finds_the_file(word: str, path: str):
    assert word.casefold() in (ROOT / path).read_text().casefold()
