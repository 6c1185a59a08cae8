"""Ends by time that come in mid stream on every machine, however slow it is."""

from collections.abc import Callable
from typing import TypeVar

from outrider.v1 import generation_pb2
from tests.rpc.harness.requests import Streamed

Answer = TypeVar("Answer", Streamed, generation_pb2.GenerateResponse)

MARGIN = 20.0  # seconds before a call's deadline, in which the last messages arrive; most calls have 60
_LIMITS = (0.3, 1.0, 3.0, 10.0, 30.0)  # seconds for a generation


def ended_in_time(answer_within: Callable[[float], Answer]) -> Answer:
    """The first answer with a token in it, of calls that are given more and more seconds."""
    for seconds in _LIMITS:
        answer = answer_within(seconds)
        if answer.token_ids:
            return answer
    raise AssertionError(f"nothing came within {_LIMITS[-1]} s")
