"""The marks of each family of tokenizers are found, and put in their order."""

import pytest

from services.engine.text.infill_marks import find_infill_marks


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"), [0, "a", 1, "b", 2]),
        (("<fim_prefix>", "<fim_suffix>", "<fim_middle>"), [0, "a", 1, "b", 2]),
        (("<fim-prefix>", "<fim-suffix>", "<fim-middle>"), [0, "a", 1, "b", 2]),
        (("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"), [0, "a", 1, "b", 2]),
        (("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"), [0, "a", 1, "b", 2]),
        (("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"), [1, "b", 0, "a", 2]),
        (("[PREFIX]", "[SUFFIX]"), [1, "b", 0, "a"]),
    ],
)
def test_marks_are_found(names: tuple[str, ...], expected: list[int | str]):
    marks = find_infill_marks({name: token_id for token_id, name in enumerate(names)}.get)
    assert marks is not None
    assert [*marks.around("a", "b")] == expected
    assert (marks.file, marks.ends) == (None, frozenset(range(len(names))))
    assert find_infill_marks({name: token_id for token_id, name in enumerate(names[1:])}.get) is None


@pytest.mark.parametrize("name", ["<|file_sep|>", "<file_sep>", "<|file_separator|>", "<filename>", "<|filename|>"])
def test_the_mark_of_files_is_found(name: str):
    names = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", name, "<|fim_pad|>", "<|repo_name|>")
    marks = find_infill_marks({each: token_id for token_id, each in enumerate(names)}.get)
    assert marks is not None
    assert (marks.file, marks.ends) == (3, frozenset(range(6)))
