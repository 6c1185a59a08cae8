"""Admission: requests beyond the limits are refused, and a refusal says when there will be room."""

import pytest

from services.service.access.caller import Caller, CallerLimits
from services.service.admission import Admission, Work
from services.service.errors import OverloadedError


def caller(name: str, most: int | None = None) -> Caller:
    """A caller with a limit of streams, if one is given."""
    return Caller(name, limits=CallerLimits(max_streams=most))


class Clock:
    """Time that passes only when a test moves it."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def refusal(admission: Admission, amount: int, name: str, *, most: int | None = None) -> tuple[str, dict[str, str]]:
    """The message of a refusal, and its trailers."""
    with pytest.raises(OverloadedError) as refused:
        admission.admit(amount, caller(name, most))
    return str(refused.value), dict(refused.value.trailers())


def seconds(admission: Admission, amount: int, name: str) -> float:
    """The delay in a refusal, in seconds."""
    return int(refusal(admission, amount, name)[1]["grpc-retry-pushback-ms"]) / 1000


async def test_no_caller_exceeds_its_own_limit_or_the_total():
    admission = Admission(Work.STREAMS, 4, 3)
    with admission.admit(3, caller("a")):
        assert "3 requests of this caller are being served or queued" in refusal(admission, 1, "a")[0]
        with admission.admit(1, caller("b")):
            assert refusal(admission, 1, "b")[0].startswith("4 requests are being served or queued")
            assert admission.of_caller == {"a": 3, "b": 1}
    assert (admission.total, admission.of_caller) == (0, {})


async def test_a_callers_own_limit_goes_before_that_of_all():
    admission = Admission(Work.STREAMS, 4, 2)
    with admission.admit(3, caller("a", 3)):
        assert "of this caller" in refusal(admission, 1, "a", most=3)[0]
    assert "of this caller" in refusal(admission, 2, "b", most=1)[0]
    assert [admission.limit_for(caller("c", most)) for most in (None, 3, 9)] == [2, 3, 4], (
        "and nobody gets more than all"
    )


async def test_the_last_places_are_for_callers_with_few_requests():
    admission = Admission(Work.STREAMS, 30)
    places = [admission.admit(1, caller("greedy")) for _ in range(18)]
    places += [admission.admit(1, caller(f"b{number}")) for number in range(4)]
    assert "18 requests of this caller" in refusal(admission, 1, "greedy")[0], "eight are left"
    places += [admission.admit(1, caller(f"c{number}")) for number in range(8)]
    assert "30 requests" in refusal(admission, 1, "d")[0]
    places.pop(0).give_back()
    assert "of this caller" in refusal(admission, 1, "greedy")[0], "its own place goes to somebody else"
    places.append(admission.admit(1, caller("d")))
    assert admission.of_caller["greedy"] == 17


async def test_a_place_that_was_given_back_is_not_given_back_again():
    admission = Admission(Work.PROMPT_TOKENS, 4)
    with admission.admit(3, caller("a")), admission.admit(1, caller("b")) as place:
        place.give_back()
        place.give_back()
        assert admission.total == 3
    assert admission.total == 0


async def test_one_long_prompt_may_wait_and_no_other_beside_it():
    admission = Admission(Work.PROMPT_TOKENS, 10, 5)
    with admission.admit(100, caller("a")):
        assert "100 tokens of prompts" in refusal(admission, 1, "b")[0]
    with admission.admit(4, caller("b")):
        assert "of this caller" in refusal(admission, 2, "b")[0]


async def test_retry_times_follow_the_rate_at_which_requests_end():
    clock = Clock()
    admission = Admission(Work.STREAMS, 10, clock=clock)
    places = [admission.admit(1, caller(f"o{number}")) for number in range(10)]
    assert all(0.5 <= seconds(admission, 1, "c") <= 1.5 for _ in range(20)), "nothing has ended yet"
    for number in range(50):  # four end in a second, and others come for them
        clock.now += 0.25
        places.pop(0).give_back()
        places.append(admission.admit(1, caller(f"n{number}")))
    assert admission.rate == pytest.approx(4.0, rel=0.1)
    assert [seconds(admission, 1, "c") for _ in range(3)] == pytest.approx([0.25, 0.5, 0.75], rel=0.1)
    assert seconds(admission, 4, "c") == pytest.approx(1.75, rel=0.1)
    clock.now += 1.0
    assert seconds(admission, 1, "c") == pytest.approx(1.0, rel=0.2), "the line has moved on"


async def test_retry_times_grow_while_no_request_ends():
    clock = Clock()
    admission = Admission(Work.STREAMS, 1, clock=clock)
    clock.now += 3600.0  # without any
    with admission.admit(1, caller("a")):
        begun = clock.now
        for waited, least in (0.0, 0.5), (20.0, 10.0), (3600.0, 30.0):
            clock.now = begun + waited
            assert all(least <= seconds(admission, 1, "b") <= 3 * least for _ in range(20))


async def test_one_callers_crowd_delays_only_itself():
    clock = Clock()
    admission = Admission(Work.STREAMS, 10, 8, clock=clock)
    for _ in range(100):
        with admission.admit(8, caller("a")):
            clock.now += 8.0
    with admission.admit(8, caller("a")):
        assert [seconds(admission, 1, "a") for _ in range(3)] == pytest.approx([1.0, 2.0, 3.0], rel=0.5)
        with admission.admit(2, caller("b")):
            assert seconds(admission, 1, "c") < 2.0
        waits = [seconds(admission, 1, "a") for _ in range(200)]
        assert max(waits) <= 60.0
        assert len({*waits[100:]}) > 50, "those beyond the longest wait do not come back together"


async def test_the_time_of_few_requests_does_not_count():
    clock = Clock()
    admission = Admission(Work.STREAMS, 10, clock=clock)
    for _ in range(20):
        with admission.admit(10, caller("a")):
            clock.now += 0.5
        with admission.admit(1, caller("a")):
            clock.now += 3600.0
    assert admission.rate == pytest.approx(20.0, rel=0.1)


async def test_only_a_request_too_late_for_its_deadline_is_refused():
    clock = Clock()
    admission = Admission(Work.PROMPT_TOKENS, 10_000, clock=clock)
    admission.check(5000, caller("a"), deadline=clock.now + 0.1)  # nothing is known, and nothing waits
    for _ in range(100):
        with admission.admit(100, caller("a")):
            clock.now += 1.0
    greedy = [admission.admit(1000, caller("a")) for _ in range(5)]
    assert admission.expected_wait(1000, "a") == pytest.approx(50.0, rel=0.1), "behind all of its own"
    assert admission.expected_wait(100, "b") == pytest.approx(1.0, rel=0.1), "callers take turns"
    admission.check(100, caller("b"), deadline=clock.now + 0.6)
    with pytest.raises(OverloadedError, match="5000 tokens of prompts are queued") as late:
        admission.check(1000, caller("a"), deadline=clock.now + 20.0)
    assert int(dict(late.value.trailers())["grpc-retry-pushback-ms"]) == pytest.approx(50_000, rel=0.1)
    for place in greedy:
        place.give_back()


async def test_an_admission_of_zero_tokens_counts_for_no_caller():
    admission = Admission(Work.PROMPT_TOKENS, 100)
    with admission.admit(0, caller("a")):
        assert admission.of_caller == {}
    assert admission.total == 0


async def test_places_given_back_in_parts_make_room_and_set_the_rate():
    clock = Clock()
    admission = Admission(Work.PROMPT_TOKENS, 10_000, clock=clock)
    with admission.admit(8000, caller("a")) as place:
        for left in range(7900, 3900, -100):
            clock.now += 1.0
            place.keep(left)
        assert admission.total == 4000
        assert admission.rate == pytest.approx(100, rel=0.1)
        assert admission.expected_wait(1, "a") == pytest.approx(40, rel=0.1)
        place.keep(9000)  # more is not asked for by this
        assert admission.total == 4000
    assert (admission.total, admission.of_caller) == (0, {})
