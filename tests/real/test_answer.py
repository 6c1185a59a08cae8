"""Whether code merges sorted lists is found by running it, whatever else the code does."""

import pytest

from tests.real import answer
from tests.real.answer import merges_sorted_lists

RIGHT = """Here it is:
```python
def merge(first, second):
    if not first or not second:
        return first + second
    if first[0] <= second[0]:
        return [first[0], *merge(first[1:], second)]
    return [second[0], *merge(first, second[1:])]
```
For example:
```python
print(merge([1, 3], [2]))
```
"""


def test_code_that_merges_is_right() -> None:
    assert merges_sorted_lists(RIGHT)


@pytest.mark.parametrize(
    "code",
    [
        "def merge(first, second):\n    return first + second",
        "def merge(first, second):\n    return sorted({*first, *second})",
        "def merge(first, second):\n    return merge(first, second)",
        "def merge(first, second) return",
        "print([1, 2, 3])",
        "",
    ],
    ids=["unsorted", "without what occurs twice", "without end", "no Python", "no function", "nothing"],
)
def test_code_that_does_not_merge_is_wrong(code: str) -> None:
    assert not merges_sorted_lists(f"```python\n{code}\n```")


def test_code_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "_SECONDS", 0.5)
    assert not merges_sorted_lists("```python\ndef merge(first, second):\n    while True:\n        pass\n```")
