"""The stream of an answer: its messages one after the other, as its samples' events come."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from outrider.v1 import generation_pb2
from services.engine.events import Aborted, Failed, Progress, Refused
from services.engine.request import Request
from services.service.admission import Place
from services.service.errors import RequestCancelledError, UnavailableError
from services.target.api.answers.message_deltas import add_deltas
from services.target.api.call import bad_continuation
from services.target.api.generation_request import GenerationRequest
from services.target.api.responses import write_event, write_starts
from services.target.message.message_reader import MessageReader
from services.target.models.served_model import ServedModel
from services.target.models.serving import Serving
from services.target.sequence.sequence import Sequence
from services.target.sequence.token_stream import interleaved


async def response_stream(
    sequences: list[Sequence],
    serving: Serving,
    model: ServedModel,
    message: GenerationRequest,
    readers: list[MessageReader] | None,
    waiting: Place,
) -> AsyncIterator[generation_pb2.StreamGenerateResponse]:
    """Every message of an answer, as it comes to be; `waiting` is given back as the prompt is computed.

    Raises UnavailableError, RequestCancelledError, and InvalidRequestError for received tokens that are not its own.
    """
    has_started = False
    async with aclosing(interleaved([sequence.stream for sequence in sequences])) as events:
        async for sample, event in events:
            serving.statistics.observe(sequences[sample], event)
            waiting.keep(event.total - event.done if isinstance(event, Progress) else 0)
            if not has_started:  # only once the scheduler has taken it up is it known what is cached
                for response in write_starts(sequences, model, message):
                    yield response
                has_started = True
            if isinstance(event, Failed):
                raise UnavailableError(event.message)
            if isinstance(event, Aborted):
                raise RequestCancelledError(event.message)
            if isinstance(event, Refused):
                raise bad_continuation(event.message)
            for response in write_event(event, sequences[sample].request, model.tokenizer):
                response.sample = sample
                if readers is not None:
                    add_deltas(response, readers[sample])
                yield response


async def message_readers(
    message: GenerationRequest, request: Request, model: ServedModel
) -> list[MessageReader] | None:
    """What reads each sample's answer as a message, if that is asked for; what was received may be long."""
    if not message.output.message_deltas:
        return None
    first = await asyncio.to_thread(MessageReader, request, model.tokenizer, model.syntax)
    return [first, *(MessageReader(request, model.tokenizer, model.syntax) for _ in range(1, request.num_samples))]
