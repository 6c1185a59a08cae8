"""Inference: the contract's service that generates."""

# ruff: noqa: N802 -- the proto names the methods

import asyncio
from functools import partial

from services.service.errors import InvalidRequestError, RequestCancelledError
from services.service.validation import Violations
from services.target.api.requests import check_name
from services.target.api.servicer import Context, GenerationServicer
from services.target.contracts.abortable_calls import CallAbortedError
from services.target.contracts.answering import ContractAnswering
from services.target.contracts.field_names import not_found
from services.target.models.serving import Serving
from services.target.openengine.answers import Answers
from services.target.openengine.metadata import read_priority
from services.target.openengine.request import in_words, read_request
from services.target.openengine.running_requests import RunningRequests
from services.target.openengine.v1 import openengine_pb2


class Inference:
    """Generates with the generation service, so that its limits and checks apply to these calls too."""

    def __init__(self, generation: GenerationServicer, requests: RunningRequests) -> None:
        self._generation, self._requests = generation, requests
        self._answering = ContractAnswering(generation)

    async def Generate(self, request: openengine_pb2.GenerateRequest, context: Context) -> None:
        """Write the prompt's log-probabilities, if they are wanted, and the tokens and the end of each answer."""
        caller = self._generation.callers.of(context)
        found = Violations()
        if request.request_id:
            check_name("request_id", request.request_id, found)
        priority = read_priority(context.invocation_metadata() or (), found)
        with self._requests.begin(caller.owner, "" if found else request.request_id) as call:
            try:
                serving = await call.wait(lambda: self._enter(request.model, context))
                serving.admissions.streams.check(1, caller)  # before the request costs anything
                read = partial(read_request, request, serving.model, priority=priority, found=found)
                message = await asyncio.to_thread(read)
                await self._answering.answer(message, Answers(request, message, serving.model), call, context)
            except InvalidRequestError as error:
                raise in_words(error) from error
            except CallAbortedError as error:
                raise RequestCancelledError("the request was aborted before it was accepted") from error

    async def _enter(self, model: str, context: Context) -> Serving:
        try:
            return await self._generation.enter(context, model)
        except InvalidRequestError as error:
            raise not_found(error) from error
