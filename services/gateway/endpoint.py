"""Endpoint: handles the generation requests of one API, from the HTTP request to the response."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Generic

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from outrider import AsyncClient, OutriderError
from services.gateway.gateway import Gateway
from services.gateway.generation.answers import Answers
from services.gateway.generation.choice_positions import HEADER, ChoicePositions
from services.gateway.generation.encoded_list import encode
from services.gateway.generation.event_stream import EventStream
from services.gateway.generation.field_names import problem_of
from services.gateway.generation.head import Head, Ticket
from services.gateway.generation.problem import Kind, Problem
from services.gateway.generation.validation import parse
from services.gateway.generation.writer import Api, Event, Request
from services.gateway.web.event_response import EventResponse, encode_event
from services.gateway.web.presence import LEFT, unless_left
from services.gateway.web.traces import Trace

logger = logging.getLogger(__name__)


class Endpoint(Generic[Request]):
    """Answers the requests of one API."""

    def __init__(self, api: Api[Request], gateway: Gateway) -> None:
        self._api = api
        self._gateway = gateway

    async def __call__(self, http: HttpRequest) -> Response:
        """Return the response, which may be an error in the API's own format."""
        async with AsyncExitStack() as held:
            trace = held.enter_context(self._gateway.traces.of(http))
            try:
                body = await self._gateway.body_of(http)
                request = parse(self._api.request, body)
                self._gateway.metrics.count_passed_over(request)
                client = await held.enter_async_context(self._gateway.client_for(http))
                async with unless_left(http.receive):
                    return await self._answer(http, request, body, client, trace, held)
            except ClientDisconnect:
                return Response(status_code=LEFT)
            except OutriderError as error:
                problem = problem_of(error, request.name_of)
            except Problem as error:
                problem = error
            trace.error = problem.kind.value
        return JSONResponse(self._api.problem(problem), problem.kind.status, problem.headers)

    async def _answer(
        self, http: HttpRequest, request: Request, body: bytes, client: AsyncClient, trace: Trace, held: AsyncExitStack
    ) -> Response:
        known = ChoicePositions.read(http.headers[HEADER]) if request.stream and HEADER in http.headers else None
        ticket = known.ticket if known else Ticket.new(request.seed)
        answers = _ask(client, request, ticket, trace)
        held.callback(answers.cancel)
        if not request.stream:
            return await self._whole(request, ticket, answers)
        await answers.admitted()
        if known is not None:
            await answers.begin()  # only then is it known whether the client's events are of this answer
            if known.check != _head(answers, ticket).check(body):
                raise Problem(Kind.CHANGED, f"{HEADER}: belongs to another request, prompt, model or build", HEADER)
        events = self._events(request, body, ticket, answers, known, trace)
        return EventResponse(events, held.pop_all(), ping=self._api.ping, ping_seconds=self._gateway.ping_seconds)

    async def _whole(self, request: Request, ticket: Ticket, answers: Answers) -> Response:
        await answers.begin()
        writer = self._api.writer(request, _head(answers, ticket))
        async for piece in answers.pieces():
            writer.keep(piece)
        body = encode(writer.whole(answers.results()), is_ascii=False)
        return Response(body, media_type="application/json")

    async def _events(
        self,
        request: Request,
        body: bytes,
        ticket: Ticket,
        answers: Answers,
        known: ChoicePositions | None,
        trace: Trace,
    ) -> AsyncIterator[bytes]:
        count = 0
        try:
            if known is None:
                await answers.begin()
            head = _head(answers, ticket)
            positions = ChoicePositions(ticket, head.check(body), answers.num_choices)
            stream = EventStream(answers, self._api.writer(request, head), positions, known)
            async for event, number, event_id in stream.events():
                count = number + 1
                yield self._encode(event, number, event_id)
        except (OutriderError, Problem) as error:
            problem = error if isinstance(error, Problem) else problem_of(error, request.name_of)
            trace.error = problem.kind.value
            logger.warning("a stream has broken off: %s", problem.kind.value)
            yield self._encode(self._api.problem_event(problem), count, None)
            return
        yield self._api.last

    def _encode(self, event: Event, number: int, event_id: str | None) -> bytes:
        if self._api.is_numbered:
            event.data["sequence_number"] = number
        return encode_event(event.data, name=event.name, event_id=event_id)


def _ask(client: AsyncClient, request: Request, ticket: Ticket, trace: Trace) -> Answers:
    """Open the streams; raises Problem for options that contradict each other or the prompt."""
    options = request.options()
    options["seed"] = ticket.seed
    options.setdefault("request_id", ticket.name)
    traceparent = trace.traceparent or None
    try:
        streams = [client.stream(prompt, traceparent=traceparent, **options) for prompt in request.prompts()]
    except TypeError as error:
        raise Problem(Kind.INVALID, str(error)) from None
    return Answers(streams, request.samples, reads_messages=request.reads_messages)


def _head(answers: Answers, ticket: Ticket) -> Head:
    return Head(ticket, answers.started, answers.samples, tuple(answers.prompt_records()))
