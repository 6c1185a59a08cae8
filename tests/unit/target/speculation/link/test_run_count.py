"""RunCount: a link with too few useful runs is closed."""

from services.target.speculation.link.draft_reader import RunCount


def add(count: RunCount, num_runs: int, *, is_useful: bool) -> None:
    for _ in range(num_runs):
        count.add(is_useful=is_useful)


def test_some_useless_runs_are_borne_and_no_more():
    count = RunCount()
    add(count, RunCount.MOST_USELESS, is_useful=False)
    assert not count.is_unbearable
    add(count, 1, is_useful=False)
    assert count.is_unbearable


def test_useful_runs_make_up_for_a_few_useless_ones():
    count = RunCount()
    for _ in range(1000):
        add(count, 4, is_useful=False)
        add(count, 1, is_useful=True)
    assert not count.is_unbearable
    for _ in range(300):
        add(count, 8, is_useful=False)
        add(count, 1, is_useful=True)
    assert count.is_unbearable


def test_good_service_is_no_credit_for_a_flood():
    count = RunCount()
    add(count, 100_000, is_useful=True)
    add(count, RunCount.MOST_USELESS + 1, is_useful=False)
    assert count.is_unbearable


def test_the_counts_are_written_in_words():
    count = RunCount()
    for is_useful, is_in_range in [(True, True), (False, True), (False, False), (False, False)]:
        count.add(is_useful=is_useful, is_in_range=is_in_range)
    assert str(count) == "4 runs, 3 useless, 2 with ids out of range"
    assert count.num_useful == 1
