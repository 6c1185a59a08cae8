"""Errors of the engine's own making are not blamed on a field of the request."""

from typing import Any, cast

import pytest

from services.engine.request import Request, StopConditions
from services.engine.sampling_params import SamplingParams
from services.service.errors import InvalidRequestError
from services.target.api.call import _submit
from services.target.generation.engine_interface import Engine
from services.target.sequence.continuation_error import ContinuationError


class RefusingEngine:
    def __init__(self, error: Exception) -> None:
        self._error = error

    async def submit(self, _: Any) -> None:
        raise self._error


async def submit(error: Exception) -> None:
    stops = StopConditions(max_tokens=4)
    request = Request(request_id="r", prompt=(1,), received=(2,), sampling=SamplingParams(seed=1), stops=stops)
    await _submit(cast(Engine, RefusingEngine(error)), [request])


async def test_received_tokens_of_another_generation_are_refused() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        await submit(ContinuationError("the grammar forbids the token at 0"))
    (violation,) = refused.value.violations
    assert violation.field == "continue_from.token_ids"


async def test_another_error_names_no_field_of_the_request() -> None:
    with pytest.raises(ValueError, match="repetition_penalty: is 0"):
        await submit(ValueError("repetition_penalty: is 0; it must be above 0"))
