"""The processor times of a run: sums by folder, and what is said beyond the budget."""

from tests.harness.processor_times import folders_of, table_of, verdict

SECONDS = {"tests/unit/engine/text/test_a.py": 2.0, "tests/unit/engine/test_b.py": 1.0, "tests/chaos/test_c.py": 4.0}
FOLDERS = {"tests/unit/engine": 3.0, "tests/chaos": 4.0}


def test_files_are_added_up_by_folders_of_two_levels() -> None:
    assert folders_of(SECONDS) == FOLDERS


def test_the_table_begins_with_the_most() -> None:
    first, *rest = table_of(SECONDS)
    assert first.split() == ["7.0", "total"]
    assert [line.split()[1] for line in rest[:2]] == ["tests/chaos", "tests/unit/engine"]


def test_within_the_budget_the_sum_is_compared_with_it() -> None:
    (line,) = verdict(FOLDERS, 0.5, {"tests/unit/engine": 4, "tests/chaos": 10})
    assert line.startswith("7 processor seconds: 14 times the yardstick of 0.50 s; 14 times in ")


def test_beyond_the_budget_the_folders_that_grew_are_named() -> None:
    warning, _ = verdict(FOLDERS, 0.5, {"tests/unit/engine": 4, "tests/chaos": 9})
    assert warning.endswith(": tests/unit/engine 6 (budget 4)")
    warning, _ = verdict(FOLDERS, 0.5, {})
    assert warning.endswith(": tests/chaos 8 (budget 0), tests/unit/engine 6 (budget 0)")
