"""The documents of the demo models: which parts of an answer are kept, and that no held-out one is trained on."""

from pathlib import Path

import pytest
from demo_documents import Documents, cleaned, divided, load_documents, renamed, save_documents
from demo_tasks import held_out_words, task

DEMO = Path(__file__).parents[3] / "models" / "demo"
TOTAL = '''def total_price(prices):
    """Return the sum of a list of prices."""
    total = 0
    for price in prices:
        total += price
    return total
'''
OTHER = TOTAL.replace("total_price", "sum_of_prices")
OPEN = "with open(path) as file:\n    text = file.read()\n"


def numbers(*, held_out: bool, about: str = "") -> list[int]:
    """The first tasks that are held out or are not, and are about something."""
    return [n for n in range(4000) if task(n).is_held_out is held_out and (not about or about in task(n).words)]


def written(number: int, text: str, *, whole: bool = True) -> dict[str, object]:
    return {"number": number, "text": text, "whole": whole, "tokens": 50}


def test_a_task_is_reproducible_and_lists_its_words():
    assert task(23) == task(23)
    assert len({task(n).question for n in range(1000)}) > 800
    assert all("{" not in task(n).question for n in range(1000))
    assert all(word in task(n).question for n in range(200) for word in task(n).words)


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (f"```python\n{TOTAL}```", TOTAL),
        (TOTAL, TOTAL),
        (f"```python\nimport math\n\n{TOTAL}\n# Example\nprint(total_price([1]))\n```\nSo.", f"import math\n\n{TOTAL}"),
        (f"```python\nfrom typing import *\n\n{TOTAL}", TOTAL),
        (TOTAL.replace("\n    total = 0", "   \n    total = 0  "), TOTAL),
        (f"@cache\n{TOTAL}", f"@cache\n{TOTAL}"),
        (f"Here it is:\n```python\n{TOTAL}```", ""),
        (TOTAL.replace("prices):", "prices:"), ""),
        (TOTAL.replace("Return", "R\u00e9turn"), ""),
        (OPEN, ""),
        ("", ""),
    ],
)  # fmt: skip
def test_the_definitions_at_the_start_of_an_answer_are_kept(answer: str, kept: str):
    assert cleaned(answer) == kept


def test_documents_are_divided_by_the_words_of_their_tasks():
    (trained, again, cut), (heldout, *_) = numbers(held_out=False)[:3], numbers(held_out=True)
    assert held_out_words().intersection(task(heldout).words)
    different = "def f(x):\n    return x\n"
    documents = divided(
        [written(again, TOTAL), written(heldout, different), written(trained, TOTAL), written(cut, OTHER, whole=False)]
    )
    assert documents == Documents({trained: TOTAL}, {heldout: different})


def test_repetitions_of_held_out_documents_are_not_trained_on():
    (one, two), (heldout, *_) = numbers(held_out=False)[:2], numbers(held_out=True)
    far = "def far(words):\n    longest = max(words, key=len)\n    return longest.upper()\n"
    documents = divided([written(heldout, TOTAL), written(one, OTHER), written(two, far)])
    assert documents == Documents({two: far}, {heldout: TOTAL})


def test_another_name_changes_nothing_but_the_name():
    number, *_ = numbers(held_out=False, about="prices")
    (text,) = {number: TOTAL}.values()
    changed = renamed({number: text}, seed=1)[number]
    plural = changed.removeprefix("def total_").partition("(")[2].partition(")")[0]
    assert plural != "prices"
    assert plural not in held_out_words()
    assert changed.count(plural) == TOTAL.count("prices")
    assert len(changed.splitlines()) == len(TOTAL.splitlines())
    assert "price" not in changed
    assert renamed({number: text}, seed=1)[number] == changed


def test_documents_are_read_as_they_were_saved(tmp_path: Path):
    documents = Documents({3: TOTAL, 1: OTHER}, {2: "def f():\n    pass\n"})
    save_documents(documents, tmp_path)
    first = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    assert load_documents(tmp_path) == documents
    save_documents(documents, tmp_path)
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == first


def test_no_trained_demo_document_is_about_a_held_out_task():
    documents = load_documents(DEMO)
    assert not any(task(number).is_held_out for number in documents.trained)
    assert all(task(number).is_held_out for number in documents.heldout)
    assert len(documents.heldout) >= 50
    for text in (*documents.trained.values(), *documents.heldout.values()):
        assert cleaned(text) == text
