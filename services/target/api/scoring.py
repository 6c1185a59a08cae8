"""Scoring: makes engine requests of a prompt and texts, and reports how likely the texts are after it."""

import asyncio
import math
from collections.abc import Callable
from collections.abc import Sequence as Seq
from contextlib import aclosing
from dataclasses import replace

from outrider.v1 import generation_pb2
from services.engine.events import Event, Progress, TokenRecord
from services.engine.request import OutputOptions, Request
from services.service.access.caller import Caller
from services.service.errors import InternalError
from services.service.limits import MAX_SCORED_TOKENS
from services.service.validation import Violations
from services.target.api.prompt_requests import prompt_events, prompt_request
from services.target.api.prompts import Room, read_prompt, read_text
from services.target.api.requests import read_cache_policy, read_request_id, read_share
from services.target.models.served_model import ServedModel
from services.target.sequence.generation import Generation

_OUTPUT = OutputOptions(logprobs=True, rank=True, prompt_logprobs=True)


async def read_score_request(
    message: generation_pb2.ScoreRequest, model: ServedModel, *, caller: Caller, deadline: float | None
) -> list[Request]:
    """One request for each choice, with the prompt before it; raises InvalidRequestError."""
    found = Violations()
    if message.prompt.heal:
        found.add("prompt.heal", "is true", "false, or not set")
    if message.prompt.HasField("infill"):
        found.add("prompt.infill", "is set", "not to be")
    prompt = await read_prompt(message.prompt, model, found)
    choices = await _read_choices(message, len(prompt), model, found)
    cache, share = read_cache_policy(message, found), read_share(message, caller, found)
    request_id = read_request_id(message, found)
    found.raise_if_any()
    return [
        replace(
            prompt_request(
                prompt + choice,
                request_id=request_id,
                output=_OUTPUT,
                cache=cache,
                share=share,
                lora=model.lora,
                deadline=deadline,
            ),
            num_scored=len(choice),
            num_samples=len(choices),
        )
        for choice in choices
    ]


async def _read_choices(
    message: generation_pb2.ScoreRequest, num_prompt: int, model: ServedModel, found: Violations
) -> list[tuple[int, ...]]:
    if not 1 <= len(message.choices) <= model.max_samples:
        found.add("choices", f"has {len(message.choices)} entries", f"1 to {model.max_samples}")
    room = Room(model.context_length - num_prompt, f"the room that the context has after the prompt's {num_prompt}")
    choices = [
        await read_text(choice, f"choices[{index}]", model, found, room, add_special_tokens=False)
        for index, choice in enumerate(message.choices[: model.max_samples])
    ]
    if (total := sum(map(len, choices))) > MAX_SCORED_TOKENS:
        found.add("choices", f"has {total} tokens", f"at most {MAX_SCORED_TOKENS} in all")
    return choices


async def write_scores(
    generations: Seq[Generation], model: ServedModel, observe: Callable[[Generation, Event], None]
) -> generation_pb2.ScoreResponse:
    """The scores of the choices, once all are computed; `observe` is called with each event."""
    records: list[list[TokenRecord]] = [[] for _ in generations]
    async with aclosing(prompt_events(generations, observe)) as events:
        async for index, event in events:
            if isinstance(event, Progress):
                records[index] += event.records
    return await asyncio.to_thread(_write_response, generations[0], records, model)


def _write_response(
    first: Generation, records: Seq[Seq[TokenRecord]], model: ServedModel
) -> generation_pb2.ScoreResponse:
    return generation_pb2.ScoreResponse(
        request_id=first.request.request_id,
        model=model.name,
        fingerprint=model.fingerprint.digest,
        prompt_tokens=first.request.num_shared,
        cached_tokens=first.num_cached,
        scores=map(_write_score, records),
    )


def _write_score(records: Seq[TokenRecord]) -> generation_pb2.TextScore:
    logprobs = [record.raw_logprob for record in records if record.raw_logprob is not None]
    if len(logprobs) < len(records):
        raise InternalError("the model's logits are no numbers")
    return generation_pb2.TextScore(
        logprob=math.fsum(logprobs),
        token_ids=[record.token_id for record in records],
        token_logprobs=logprobs,
        token_ranks=[record.rank or 0 for record in records],
    )
