"""Embedding: makes engine requests of texts, and vectors of their hidden states."""

import asyncio
import math
from collections.abc import Callable
from collections.abc import Sequence as Seq
from contextlib import aclosing
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from outrider.v1 import generation_pb2
from services.engine.events import Event
from services.engine.range import Range
from services.engine.request import OutputOptions, Pooling, Request
from services.service.access.caller import Caller
from services.service.errors import InternalError
from services.service.limits import MAX_EMBEDDED_VALUES
from services.service.validation import Violations
from services.target.api.prompt_requests import prompt_events, prompt_request
from services.target.api.prompts import Room, read_text
from services.target.api.requests import read_cache_policy, read_request_id, read_share
from services.target.models.served_model import ServedModel
from services.target.sequence.generation import Generation

_POOLINGS = {
    generation_pb2.POOLING_UNSPECIFIED: Pooling.LAST,
    generation_pb2.POOLING_LAST: Pooling.LAST,
    generation_pb2.POOLING_MEAN: Pooling.MEAN,
    generation_pb2.POOLING_CLS: Pooling.CLS,
}


async def read_embed_request(
    message: generation_pb2.EmbedRequest,
    model: ServedModel,
    *,
    most_texts: int,
    caller: Caller,
    deadline: float | None,
) -> list[Request]:
    """One request for each text; raises InvalidRequestError."""
    found = Violations()
    texts = await _read_texts(message, model, found, most_texts)
    pooling = _POOLINGS.get(message.pooling)
    if pooling is None:
        found.add("pooling", f"is {message.pooling}", ", ".join(generation_pb2.Pooling.keys()))
    _check_vectors(message, model, found)
    cache, share = read_cache_policy(message, found), read_share(message, caller, found)
    request_id = read_request_id(message, found)
    found.raise_if_any()
    output = OutputOptions()
    return [
        replace(
            prompt_request(
                text, request_id=request_id, output=output, cache=cache, share=share, lora=model.lora, deadline=deadline
            ),
            pooling=pooling,
        )
        for text in texts
    ]


async def _read_texts(
    message: generation_pb2.EmbedRequest, model: ServedModel, found: Violations, most: int
) -> list[tuple[int, ...]]:
    if not 1 <= len(message.inputs) <= most:
        found.add("inputs", f"has {len(message.inputs)} entries", f"1 to {most}")
    room = Room(model.context_length, "the context length")
    add_special = message.add_special_tokens if message.HasField("add_special_tokens") else True
    return [
        await read_text(text, f"inputs[{index}]", model, found, room, add_special_tokens=add_special)
        for index, text in enumerate(message.inputs[:most])
    ]


def _check_vectors(message: generation_pb2.EmbedRequest, model: ServedModel, found: Violations) -> None:
    dimensions = _dimensions(message, model)
    found.check_number("dimensions", dimensions, Range(minimum=1, maximum=model.config.hidden_size))
    if (total := len(message.inputs) * dimensions) > MAX_EMBEDDED_VALUES:
        found.add("inputs", f"has vectors of {total} numbers", f"at most {MAX_EMBEDDED_VALUES} in all")


def _dimensions(message: generation_pb2.EmbedRequest, model: ServedModel) -> int:
    return message.dimensions if message.HasField("dimensions") else model.config.hidden_size


async def write_embeddings(
    message: generation_pb2.EmbedRequest,
    generations: Seq[Generation],
    model: ServedModel,
    observe: Callable[[Generation, Event], None],
) -> generation_pb2.EmbedResponse:
    """The texts' vectors, once all are computed; `observe` is called with each event."""
    async with aclosing(prompt_events(generations, observe)) as events:
        async for _ in events:
            pass
    return await asyncio.to_thread(_write_response, message, generations, model)


def _write_response(
    message: generation_pb2.EmbedRequest, generations: Seq[Generation], model: ServedModel
) -> generation_pb2.EmbedResponse:
    dimensions = _dimensions(message, model)
    is_normalised = message.normalised or not message.HasField("normalised")
    response = generation_pb2.EmbedResponse(
        request_id=generations[0].request.request_id, model=model.name, fingerprint=model.fingerprint.digest
    )
    for generation in generations:
        assert generation.embedding is not None
        response.embeddings.add(
            values=to_vector(generation.embedding, dimensions, is_normalised=is_normalised).tolist(),
            prompt_tokens=generation.num_prompt,
            cached_tokens=generation.num_cached,
        )
    return response


def to_vector(state: NDArray[np.float32], dimensions: int, *, is_normalised: bool) -> NDArray[np.float32]:
    """The first `dimensions` numbers of a pooled state, [hidden size], divided by their Euclidean norm.

    Matryoshka models are trained for vectors that are cut before they are normalised (Kusupati et al., arXiv
    2205.13147, section 3). Raises InternalError if a number is not finite.
    """
    values = state[:dimensions].astype(np.float64)
    if not np.isfinite(values).all():
        raise InternalError("the model's hidden states are no numbers")
    # Squares of float32 are exact in double precision, and fsum rounds once: the result depends on no order of adding.
    norm = math.sqrt(math.fsum((values * values).tolist())) if is_normalised else 1.0
    return (values / (norm or 1.0)).astype(np.float32)
