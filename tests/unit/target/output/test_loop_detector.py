"""A loop is noticed with the token that completes it, against the definition itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.target.output.loop_detector import LoopDetector


def is_loop(tokens: list[int], window: int, repetitions: int) -> bool:
    """Whether the last tokens have a period that fits into them often enough."""
    last = tokens[-window:]
    periods = range(1, window // repetitions + 1)
    return len(last) == window and any(last[period:] == last[:-period] for period in periods)


@given(
    st.integers(2, 5).flatmap(lambda repetitions: st.tuples(st.integers(repetitions, 17), st.just(repetitions))),
    st.lists(
        st.lists(st.integers(0, 2), min_size=1, max_size=4).flatmap(lambda run: st.integers(1, 6).map(run.__mul__))
    ),
)
def test_loops_are_noticed_as_their_definition_says(limits: tuple[int, int], runs: list[list[int]]):
    window, repetitions = limits
    tokens = [token_id for run in runs for token_id in run]
    detector = LoopDetector(window=window, repetitions=repetitions)
    noticed = [detector.push(token_id) for token_id in tokens]
    assert noticed == [is_loop(tokens[:count], window, repetitions) for count in range(1, len(tokens) + 1)]


@pytest.mark.parametrize(
    ("tokens", "window", "repetitions", "at"),
    [
        ([5] * 9, 4, 4, 4),
        ([5] * 9, 4, 2, 4),
        ([1, 2, 3] * 3, 6, 2, 6),
        ([9, 1, 2, 1, 2, 1, 2], 6, 3, 7),
        ([1, 2, 1, 2, 1], 5, 2, 5),
        ([1, 2, 3, 1, 2, 3], 6, 3, None),
        ([1, 2, 3, 1, 2, 4], 6, 2, None),
        ([0, 0, 0], 4, 2, None),
    ],
)
def test_examples(tokens: list[int], window: int, repetitions: int, at: int | None):
    detector = LoopDetector(window=window, repetitions=repetitions)
    found = [count for count, token_id in enumerate(tokens, start=1) if detector.push(token_id)]
    assert found[:1] == ([] if at is None else [at])
