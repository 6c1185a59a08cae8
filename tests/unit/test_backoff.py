"""Backoff: a draft that is not there, or that never stays, is tried ever more seldom; one that stayed at once."""

import pytest

from services.target.backoff import Backoff

FIRST, LONGEST = 0.1, 2.0


def pauses(backoff: Backoff, *links: float, longest: float = LONGEST) -> list[float]:
    return [backoff.after(link, longest=longest) for link in links]


@pytest.mark.parametrize("link", [0.0, 0.01], ids=["is not there", "hangs up at once"])
def test_pauses_grow_up_to_a_bound(link):
    for number, pause in enumerate(pauses(Backoff(first=FIRST), *[link] * 20), start=1):
        wanted = min(FIRST * 2**number, LONGEST)
        assert wanted / 2 <= pause <= wanted


def test_after_a_link_that_has_lasted_all_begins_anew():
    backoff = Backoff(first=FIRST)
    assert pauses(backoff, *[0.0] * 20)[-1] > 0.5
    assert pauses(backoff, 3.0)[0] <= FIRST
    assert pauses(backoff, 0.0)[0] <= 2 * FIRST


def test_a_bound_that_falls_is_kept_at_once():
    backoff = Backoff(first=FIRST)
    assert pauses(backoff, *[0.0] * 20, longest=30.0)[-1] > LONGEST
    assert pauses(backoff, 0.0)[0] <= LONGEST
