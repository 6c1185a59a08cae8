"""Backoff: what is not there, or of no use, is tried ever more seldom; what was of use at once."""

from services.target.speculation.link.backoff import Backoff

FIRST, LONGEST = 0.1, 2.0


def pauses(backoff: Backoff, count: int, *, was_of_use: bool = False, longest: float = LONGEST) -> list[float]:
    return [backoff.after(was_of_use=was_of_use, longest=longest) for _ in range(count)]


def test_pauses_grow_up_to_a_bound():
    for number, pause in enumerate(pauses(Backoff(first=FIRST), 20), start=1):
        wanted = min(FIRST * 2**number, LONGEST)
        assert wanted / 2 <= pause <= wanted


def test_after_a_link_that_was_of_use_all_begins_anew():
    backoff = Backoff(first=FIRST)
    assert pauses(backoff, 20)[-1] > 0.5
    assert pauses(backoff, 1, was_of_use=True)[0] <= FIRST
    assert pauses(backoff, 1)[0] <= 2 * FIRST


def test_a_bound_that_falls_is_kept_at_once():
    backoff = Backoff(first=FIRST)
    assert pauses(backoff, 20, longest=30.0)[-1] > LONGEST
    assert pauses(backoff, 1)[0] <= LONGEST
