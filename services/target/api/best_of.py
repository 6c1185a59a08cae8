"""Best of several: answers ranked by their mean log-probability, once all have ended."""

import asyncio
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

from outrider.v1 import common_pb2, generation_pb2
from services.engine.range import Range
from services.engine.request import OutputOptions
from services.service.validation import Violations
from services.target.api.output_options import asks_logprobs, asks_records
from services.target.api.request_messages import GenerationRequest
from services.target.models.served_model import ServedModel

Response = generation_pb2.StreamGenerateResponse


def check_best_of(message: GenerationRequest, model: ServedModel, found: Violations) -> None:
    """Add what is wrong with a request for ranked answers to `found`."""
    is_ranked = message.best_of > 1
    if 1 <= message.best_of < message.num_samples:
        found.add("best_of", f"is {message.best_of}", f"at least num_samples, which is {message.num_samples}")
    found.check_number("best_of", message.best_of, Range(minimum=1, maximum=model.max_samples))
    if is_ranked and message.HasField("continue_from"):
        allowed = "1 with continue_from: an answer is continued as a request of its own"
        found.add("best_of", f"is {message.best_of}", allowed)
    is_stream = isinstance(message, generation_pb2.StreamGenerateRequest)  # a whole answer has this limit anyway
    if is_stream and is_ranked and message.output.logits and not message.output.logits_token_ids:
        found.add("output.logits", "is true", "beside best_of only with logits_token_ids")


def ranking_output(output: OutputOptions) -> OutputOptions:
    """The output options of ranked answers: those of the request, with log-probabilities."""
    return replace(output, records=True, logprobs=True)


async def best_of(responses: AsyncIterator[Response], message: GenerationRequest) -> AsyncIterator[Response]:
    """The events of the best samples only, numbered by rank: their starts, the prompt's records, then each answer."""
    by_sample: defaultdict[int, list[Response]] = defaultdict(list)
    async for response in responses:
        by_sample[response.sample].append(response)
    for response in await asyncio.to_thread(_choose, by_sample, message):  # they may be many
        yield response


def _choose(by_sample: Mapping[int, Seq[Response]], message: GenerationRequest) -> list[Response]:
    ranked = sorted(by_sample, key=lambda sample: (-_mean_logprob(by_sample[sample]), sample))
    chosen = [by_sample[sample] for sample in ranked[: max(1, message.num_samples)]]
    prompt = [(0, response) for response in by_sample[0] if response.prefill.records]
    starts = [(rank, response) for rank, own in enumerate(chosen) for response in own if response.HasField("started")]
    rest = [(rank, response) for rank, own in enumerate(chosen) for response in own if _is_of_answer(response)]
    for rank, response in (responses := [*starts, *prompt, *rest]):
        response.sample = rank
        if response.HasField("chunk"):
            _hide_unasked(response.chunk, message.output)
    return [response for _, response in responses]


def _is_of_answer(response: Response) -> bool:
    return response.HasField("chunk") or response.HasField("finished")


def _mean_logprob(responses: Seq[Response]) -> float:
    """The mean log-probability of an answer's tokens, which all have records."""
    logprobs = [record.raw_logprob for response in responses for record in response.chunk.records]
    return math.fsum(logprobs) / len(logprobs) if logprobs else -math.inf


def _hide_unasked(chunk: generation_pb2.Chunk, output: common_pb2.OutputOptions) -> None:
    """Remove the records and log-probabilities that are there only for the ranking."""
    if not asks_records(output):
        chunk.ClearField("records")
    elif not asks_logprobs(output):
        for record in chunk.records:
            record.ClearField("raw_logprob")
            record.ClearField("processed_logprob")
