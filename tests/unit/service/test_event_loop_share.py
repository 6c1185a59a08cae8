"""EventLoopShare: a link that takes more than its part of the event loop's time rests."""

import pytest

from services.service import event_loop_share as loop_share
from services.service.event_loop_share import EventLoopShare


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(loop_share, "time", clock)
    return clock


@pytest.mark.parametrize("seconds", [0.0, 0.0001, 0.01, 1.0])
def test_a_flood_gets_its_part_whatever_its_messages_cost(clock: Clock, seconds: float) -> None:
    share, taken = EventLoopShare(), 0.0
    began = clock.now
    while clock.now < began + 20:
        rest = share.rest_after(seconds)
        taken += seconds + 0.00005
        clock.now += seconds + 0.00005 + rest
    assert 0.4 < taken / (clock.now - began) < 0.6


def test_a_link_that_takes_little_time_never_rests(clock: Clock) -> None:
    share = EventLoopShare()
    for _ in range(1000):
        clock.now += 0.01
        assert share.rest_after(0.002) == 0.0


def test_many_messages_at_once_are_read_at_once(clock: Clock) -> None:
    share = EventLoopShare()
    assert [share.rest_after(0.0001) for _ in range(100)] == [0.0] * 100
