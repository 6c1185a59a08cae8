"""DraftAddress: when a draft is tried again, by how its links have ended, and what is logged of it."""

import logging

import grpc
import pytest
from grpc import aio

from services.target.speculation.link import draft_address
from services.target.speculation.link.draft_address import DraftAddress
from services.target.speculation.link.draft_reader import BrokenLinkError, RunCount


def failure(code: grpc.StatusCode, details: str = "") -> aio.AioRpcError:
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details)


AWAY = failure(grpc.StatusCode.UNAVAILABLE)
REFUSED = failure(grpc.StatusCode.FAILED_PRECONDITION)
BROKEN = BrokenLinkError("it sent bytes")
CUT = failure(grpc.StatusCode.INTERNAL)
ROUNDING = 1e-9  # of differences of clock readings
BAD = [BROKEN, failure(grpc.StatusCode.RESOURCE_EXHAUSTED), ValueError("a bug")]


class Tried:
    """An address, and a clock."""

    def __init__(self) -> None:
        self.address = DraftAddress("somewhere")
        self.now = 1000.0

    def link(self, seconds: float, *, num_useful: int) -> None:
        runs = RunCount()
        for _ in range(num_useful):
            runs.add(is_useful=True)
        self.address.linked(runs, self.now)
        self.now += seconds

    def lose(self, error: Exception) -> float:
        """How long it is left alone then."""
        self.address.lost(error, self.now)
        pause = self.address.due - self.now
        self.now = self.address.due
        return pause


def test_an_absent_draft_is_tried_at_least_every_two_seconds():
    tried = Tried()
    for number in range(1, 21):
        wanted = min(0.1 * 2**number, 2.0)
        assert wanted / 2 <= tried.lose(AWAY) + ROUNDING <= wanted + 2 * ROUNDING


@pytest.mark.parametrize("error", [*BAD, CUT, REFUSED], ids=repr)
@pytest.mark.parametrize("seconds", [0.0, 5.0])
def test_a_bad_draft_is_tried_ever_more_rarely(error: Exception, seconds: float):
    tried, pauses = Tried(), []
    for _ in range(20):
        tried.link(seconds, num_useful=1000 if error in BAD else 0)
        pauses.append(tried.lose(error))
    assert pauses[0] <= 0.2
    assert all(15.0 <= pause <= 30.0 for pause in pauses[-5:])


def test_a_bad_draft_gains_nothing_from_being_away():
    tried = Tried()
    for _ in range(20):
        tried.link(1.0, num_useful=0)
        tried.lose(BROKEN)
        assert tried.lose(AWAY) <= 30.0
    assert tried.lose(AWAY) >= 15.0


def test_a_draft_that_hangs_up_at_once_is_tried_ever_more_rarely():
    tried = Tried()
    for _ in range(20):
        tried.link(0.01, num_useful=0)
        pause = tried.lose(AWAY)
    assert pause >= 15.0


@pytest.mark.parametrize(("error", "seconds"), [(AWAY, 2.0), (CUT, 2.0), (BROKEN, 100.0)])
def test_a_useful_link_resets_the_pauses(error: Exception, seconds: float):
    tried = Tried()
    for _ in range(20):
        tried.lose(BROKEN)
    tried.link(seconds, num_useful=16)
    assert tried.lose(error) <= 0.1 + ROUNDING
    assert tried.lose(AWAY) <= 0.2 + ROUNDING


def test_a_bound_that_falls_is_kept_at_once():
    tried = Tried()
    for _ in range(20):
        tried.link(0.01, num_useful=0)
        pause = tried.lose(AWAY)
    assert pause > 2.0
    assert tried.lose(AWAY) <= 2.0 + ROUNDING


def test_a_useless_link_does_not_reset_the_pauses():
    tried = Tried()
    for _ in range(20):
        tried.lose(BROKEN)
    tried.link(1000.0, num_useful=0)
    assert tried.lose(AWAY) >= 15.0


def test_a_bad_draft_is_logged_once_a_minute_with_a_count(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    now = 0.0
    monkeypatch.setattr("services.service.log_rate_limit.time.monotonic", lambda: now)
    address = DraftAddress("somewhere")
    for number in range(100):
        now = float(number)
        address.linked(RunCount(), now)
        address.lost(BROKEN, now)
        address.complain(f"what {number}")
    assert [record.message for record in caplog.records] == ["what 0", "what 60 (59 more such lines were left out)"]


def test_a_complaint_that_stays_the_same_is_logged_once(caplog: pytest.LogCaptureFixture):
    address = DraftAddress("somewhere")
    for _ in range(100):
        address.linked(RunCount(), 0.0)
    for _ in range(100):
        address.lost(AWAY, 0.0)
        address.complain("away")
    assert [record.name for record in caplog.records] == [draft_address.__name__]


def test_a_draft_that_may_be_loading_is_no_warning_at_once(caplog: pytest.LogCaptureFixture):
    address = DraftAddress("somewhere")
    with caplog.at_level(logging.INFO, draft_address.__name__):
        for now in range(100):
            address.lost(AWAY, float(now))
            address.complain("away")
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_a_draft_that_was_linked_is_missed_at_once(caplog: pytest.LogCaptureFixture):
    address = DraftAddress("somewhere")
    address.lost(AWAY, 0.0)
    address.linked(RunCount(), 1.0)
    address.lost(AWAY, 2.0)
    address.complain("away")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_draft_that_does_not_fit_is_a_warning_at_once(caplog: pytest.LogCaptureFixture):
    address = DraftAddress("somewhere")
    address.lost(REFUSED, 0.0)
    address.complain("another vocabulary")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
