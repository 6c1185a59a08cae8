"""The round-trip time of a message to a draft and its answer, without any pass of the draft's model."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from grpc import aio

from outrider.v1 import draft_pb2, draft_pb2_grpc
from services.cli.service_process import ServiceFailedError
from services.draft_protocol.conversions import write_sampling
from services.draft_protocol.protocol import PROTOCOL_VERSION
from services.engine.decoder.native import NOISE_VERSION
from services.engine.sampling_params import SamplingParams

_NO_TOKEN = 2**32 - 1
_WARM_UP = 20
_Call = aio.StreamStreamCall[draft_pb2.DraftRequest, draft_pb2.DraftResponse]


def link_round_trips(address: str, *, vocabulary: str, count: int) -> list[float]:
    """Return the seconds of `count` round trips on a link like a target's to the draft at `address`.

    The message opens a sequence that masks a token beyond the vocabulary, which the draft's engine thread refuses
    between two steps. So the time covers everything that a commit and a prediction pass through except the model: both
    event loops, the wire, and the hand-over to the engine and back. `vocabulary` is the target's fingerprint.

    Raises ServiceFailedError if the draft's vocabulary is another.
    """
    try:
        return asyncio.run(_round_trips(address, vocabulary, count))
    except aio.AioRpcError as error:
        raise ServiceFailedError(f"the draft refuses the link: {error.details()}") from error


async def _round_trips(address: str, vocabulary: str, count: int) -> list[float]:
    async with _linked(address, vocabulary) as call:
        return [await _timed_refusal(call) for _ in range(_WARM_UP + count)][_WARM_UP:]


@asynccontextmanager
async def _linked(address: str, vocabulary: str) -> AsyncIterator[_Call]:
    hello = draft_pb2.TargetHello(
        min_protocol_version=PROTOCOL_VERSION,
        max_protocol_version=PROTOCOL_VERSION,
        noise_version=NOISE_VERSION,
        vocabulary_fingerprint=vocabulary,
    )
    async with aio.insecure_channel(address) as channel:
        call = draft_pb2_grpc.DraftServiceStub(channel).Draft()
        await call.write(draft_pb2.DraftRequest(hello=hello))
        await call.read()
        yield call
        call.cancel()


async def _timed_refusal(call: _Call) -> float:
    began = time.perf_counter()
    await call.write(_OPEN)
    await call.read()
    return time.perf_counter() - began


_OPEN = draft_pb2.DraftRequest(
    open=draft_pb2.Open(
        sequence_id=1,
        sampling=write_sampling(SamplingParams(seed=0, temperature=0.0)),
        prompt_tokens=1,
        masked_token_ids=[_NO_TOKEN],
    )
)
