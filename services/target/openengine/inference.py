"""Inference: the contract's service that generates."""

# ruff: noqa: N802 -- the proto names the methods

import asyncio
from functools import partial

from services.service.errors import InvalidRequestError, NotFoundError
from services.service.validation import Violations
from services.target.api.servicer import Context, GenerationServicer
from services.target.contracts.answering import ContractAnswering
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
        try:
            serving = await self._generation.enter(context, request.model)
        except InvalidRequestError as error:
            raise NotFoundError("; ".join(f"{each.field} {each.description}" for each in error.violations)) from error
        caller = self._generation.callers.of(context)
        serving.admissions.streams.check(1, caller)  # before the request costs anything
        with self._requests.begin(caller.owner, request.request_id) as call:
            try:
                found = Violations()
                priority = read_priority(context.invocation_metadata() or (), found)
                read = partial(read_request, request, serving.model, priority=priority, found=found)
                message = await asyncio.to_thread(read)
                answers = Answers(request, message.num_samples, serving.model)
                await self._answering.answer(message, answers, call, context)
            except InvalidRequestError as error:
                raise in_words(error) from error
