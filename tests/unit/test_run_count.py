"""RunCount: a link over which nothing of use comes is noticed, once."""

from services.target.run_count import RunCount


def noticed(count: RunCount, *, num_useless: int) -> list[int]:
    """Which of so many useless runs were noticed."""
    seen = []
    for number in range(num_useless):
        count.add(is_useful=False)
        seen += [number] if count.notice() else []
    return seen


def test_a_long_row_of_useless_runs_is_noticed_once():
    assert noticed(RunCount(), num_useless=10_000) == [255]


def test_a_run_of_use_breaks_the_row():
    count = RunCount()
    for _ in range(100):
        assert noticed(count, num_useless=255) == []
        count.add(is_useful=True)
        assert not count.notice()


def test_it_says_what_came():
    count = RunCount()
    for is_useful, is_in_range in [(True, True), (False, True), (False, False), (False, False)]:
        count.add(is_useful=is_useful, is_in_range=is_in_range)
    assert str(count) == "4 runs, 3 of no use, 2 with ids out of range"
