"""Retries go round the addresses, slow down, and end."""

import math
from contextlib import suppress

import pytest

from outrider.errors import (
    Cancelled,
    DeadlineExceeded,
    FingerprintMismatch,
    InvalidArgument,
    OutriderError,
    ResourceExhausted,
    Unavailable,
)
from outrider.servers.retry import Attempts, Contact, RetryPolicy


class Clock:
    """Time that passes only when a test moves it."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def visit(attempts: Attempts, count: int) -> list[tuple[int, bool]]:
    """The addresses tried in so many failures, and whether there was a pause before each."""
    visited = []
    for _ in range(count):
        pause = attempts.failed(Unavailable("gone"))
        visited.append((attempts.address, pause > 0))
    return visited


def test_every_address_is_tried_before_the_first_pause() -> None:
    attempts = Attempts(RetryPolicy(2, 1.0), 3, first=1)
    assert attempts.address == 1
    assert visit(attempts, 6) == [(2, False), (0, False), (1, True), (2, False), (0, False), (1, True)]
    with pytest.raises(Unavailable, match="gone"):
        attempts.failed(Unavailable("gone"))


def test_pauses_double_up_to_the_longest_less_a_random_part() -> None:
    policy = RetryPolicy(10_000, 5.0)
    longest = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    for _ in range(100):
        pauses = [policy.backoff(round_ + 1) for round_ in range(len(longest))]
        assert all(limit / 2 <= pause <= limit for pause, limit in zip(pauses, longest, strict=True))
    assert policy.backoff(10_000) <= 5.0
    assert len({policy.backoff(1) for _ in range(10)}) > 1


def test_progress_counts_anew() -> None:
    attempts = Attempts(RetryPolicy(1, 1.0), 1)
    for _ in range(5):
        attempts.failed(Cancelled("by the server"))
        attempts.progressed()
    attempts.failed(Unavailable("gone"))
    with pytest.raises(Unavailable):
        attempts.failed(Unavailable("gone"))


def test_zero_retries_is_none() -> None:
    with pytest.raises(Unavailable):
        Attempts(RetryPolicy(0, 1.0), 3).failed(Unavailable("gone"))


def test_a_refusing_address_is_not_asked_again() -> None:
    attempts = Attempts(RetryPolicy(2, 1.0), 3)
    assert attempts.failed(FingerprintMismatch("other"), resuming=True) == 0
    assert attempts.address == 1
    assert visit(attempts, 3) == [(2, True), (1, False), (2, True)]
    attempts.failed(FingerprintMismatch("other"), resuming=True)
    assert attempts.address == 1
    with pytest.raises(FingerprintMismatch, match="the last"):
        attempts.failed(FingerprintMismatch("the last"), resuming=True)


@pytest.mark.parametrize("error", [FingerprintMismatch("other"), ResourceExhausted("full")])
def test_a_refusal_is_passed_over_only_when_resuming(error: OutriderError) -> None:
    Attempts(RetryPolicy(1, 1.0), 2).failed(error, resuming=True)
    with pytest.raises(type(error)):
        Attempts(RetryPolicy(1, 1.0), 2).failed(error)


def full(retry_after: float) -> ResourceExhausted:
    error = ResourceExhausted("full")
    error.retry_after = retry_after
    return error


def test_a_full_server_is_asked_again_after_its_own_delay() -> None:
    attempts = Attempts(RetryPolicy(2, 1.0), 2)
    assert [attempts.failed(full(30.0)) for _ in range(4)] == [0.0, 30.0, 0.0, 30.0]
    with pytest.raises(ResourceExhausted):
        attempts.failed(full(30.0))
    assert 0 < Attempts(RetryPolicy(2, 1.0), 1).failed(full(0.0)) <= 0.1


def test_a_server_full_beyond_the_timeout_is_not_waited_for() -> None:
    with pytest.raises(ResourceExhausted):
        Attempts(RetryPolicy(2, 1.0), 1, timeout=5.0).failed(full(6.0))


def unreached() -> Unavailable:
    error = Unavailable("failed to connect")
    error.unreached = True
    return error


def is_patient(attempts: Attempts, clock: Clock) -> bool:
    """Whether a call is still tried after no server was reached for a minute."""
    clock.now += 60.0
    try:
        return attempts.failed(unreached()) > 0
    except Unavailable:
        return False


def test_a_client_that_has_reached_no_server_soon_gives_up() -> None:
    clock = Clock()
    attempts = Attempts(RetryPolicy(10, 1.0), 2, clock=clock)
    assert attempts.failed(unreached()) == 0.0
    assert attempts.failed(unreached()) > 0
    clock.now += 3.0
    attempts.failed(unreached())
    with pytest.raises(Unavailable, match="failed to connect"):
        attempts.failed(unreached())
    assert is_patient(Attempts(RetryPolicy(10, 1.0, connect_timeout=math.inf), 1, clock=clock), clock)


@pytest.mark.parametrize("error", [InvalidArgument("bad"), ResourceExhausted("full"), Unavailable("it drains")])
def test_whatever_a_server_says_it_is_reached(error: OutriderError) -> None:
    clock, contact = Clock(), Contact()
    attempts = [Attempts(RetryPolicy(10, 1.0), 1, contact=contact, clock=clock) for _ in range(3)]
    assert not is_patient(attempts[0], clock)
    with suppress(type(error)):
        attempts[1].failed(error)
    assert is_patient(attempts[2], clock)


def test_running_out_of_time_reaches_no_server() -> None:
    clock = Clock()
    attempts = Attempts(RetryPolicy(10, 1.0), 1, clock=clock)
    with pytest.raises(DeadlineExceeded):
        attempts.failed(DeadlineExceeded("while connecting"))
    assert not is_patient(attempts, clock)


def test_only_a_new_call_is_given_up_at_the_connect_timeout() -> None:
    clock = Clock()
    new, begun, drained = (Attempts(RetryPolicy(10, 1.0, connect_timeout=3.0), 1, clock=clock) for _ in range(3))
    new.failed(unreached())
    clock.now += 3.0
    assert begun.failed(unreached(), resuming=True) > 0
    assert drained.failed(Unavailable("the server drains")) > 0
    with pytest.raises(Unavailable, match="failed to connect"):
        new.failed(unreached())


def test_every_address_is_tried_before_a_call_is_given_up() -> None:
    clock = Clock()
    attempts = Attempts(RetryPolicy(10, 1.0, connect_timeout=3.0), 2, clock=clock)
    clock.now += 3.0  # the first one was silent for so long
    assert attempts.failed(unreached()) == 0.0
    assert attempts.address == 1
    with pytest.raises(Unavailable, match="failed to connect"):
        attempts.failed(unreached())


def test_one_deadline_for_all_attempts() -> None:
    clock = Clock()
    attempts = Attempts(RetryPolicy(10, 1.0), 1, timeout=5.0, clock=clock)
    assert attempts.time_left() == 5.0
    clock.now += 4.0
    attempts.failed(Unavailable("gone"))
    assert attempts.time_left() == 1.0
    clock.now += 0.99
    with pytest.raises(DeadlineExceeded, match=r"ran out: gone$") as caught:
        attempts.failed(Unavailable("gone"))
    assert isinstance(caught.value.__cause__, Unavailable)
    clock.now += 0.01
    with pytest.raises(DeadlineExceeded, match=r"ran out: gone$"):
        attempts.time_left()


def test_a_cancellation_at_the_deadline_is_deadline_exceeded() -> None:
    clock = Clock()
    attempts = Attempts(RetryPolicy(0, 1.0), 1, timeout=5.0, clock=clock)
    with pytest.raises(Cancelled):
        attempts.failed(Cancelled("by the server"))
    clock.now += 4.995
    with pytest.raises(DeadlineExceeded):
        attempts.failed(Cancelled("by the server's clock"))


def test_no_deadline() -> None:
    assert Attempts(RetryPolicy(1, 1.0), 1).time_left() is None
