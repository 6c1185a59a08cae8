"""DraftClient: keeps a link to a draft service, and carries what the RemotePredictor says and hears."""

import asyncio
import itertools
import logging
import random
from collections.abc import Sequence

from grpc import aio

from outrider.v1 import draft_pb2, draft_pb2_grpc
from services.engine.native import NOISE_VERSION
from services.rpc.convert.drafting import write_sampling
from services.rpc.draft_protocol import PROTOCOL_VERSION
from services.target.draft_messages import Close, Commit, Open, Outgoing, Window
from services.target.remote_predictor import RemotePredictor

logger = logging.getLogger(__name__)

_HELLO_SECONDS = 5.0
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.1, 2.0  # seconds
_OPTIONS = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
_Call = aio.StreamStreamCall[draft_pb2.DraftRequest, draft_pb2.DraftResponse]


class DraftClient:
    """Tries the addresses in turn, for ever: a draft that is not there costs speed, never an error."""

    def __init__(
        self, addresses: Sequence[str], predictor: RemotePredictor, *, vocabulary: str, news: asyncio.Event
    ) -> None:
        """`news` is set whenever the predictor has something to send."""
        self._addresses = addresses
        self._predictor = predictor
        self._vocabulary = vocabulary
        self._news = news

    async def run(self) -> None:
        """Keep the link up until cancelled."""
        backoff = _FIRST_BACKOFF
        for address in itertools.cycle(self._addresses):
            try:
                async with aio.insecure_channel(address, options=_OPTIONS) as channel:
                    await self._serve(address, draft_pb2_grpc.DraftServiceStub(channel).Draft())
            except (aio.AioRpcError, TimeoutError, _BrokenLinkError) as error:
                was_connected = not self._predictor.absence
                self._predictor.disconnected(f"the draft at {address} is gone: {_reason(error)}")
                logger.warning("%s", self._predictor.absence)
            backoff = _FIRST_BACKOFF if was_connected else min(2 * backoff, _LONGEST_BACKOFF)
            await asyncio.sleep(backoff * random.uniform(0.5, 1.0))

    async def _serve(self, address: str, call: _Call) -> None:
        hello = await asyncio.wait_for(self._greet(call), _HELLO_SECONDS)
        logger.info("the draft at %s is there: %s, context of %s", address, hello.model, hello.context_length)
        self._predictor.connected()
        writer = asyncio.create_task(self._write(call))
        try:
            await self._read(call)
        finally:
            writer.cancel()
            call.cancel()

    async def _greet(self, call: _Call) -> draft_pb2.DraftHello:
        hello = draft_pb2.TargetHello(
            min_protocol_version=PROTOCOL_VERSION,
            max_protocol_version=PROTOCOL_VERSION,
            noise_version=NOISE_VERSION,
            vocabulary_fingerprint=self._vocabulary,
        )
        await call.write(draft_pb2.DraftRequest(hello=hello))
        answer = await call.read()
        if not isinstance(answer, draft_pb2.DraftResponse) or answer.WhichOneof("message") != "hello":
            raise _BrokenLinkError("it does not say hello")
        return answer.hello

    async def _write(self, call: _Call) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            for message in self._predictor.outgoing():
                await call.write(_request(message))

    async def _read(self, call: _Call) -> None:
        while isinstance(response := await call.read(), draft_pb2.DraftResponse):
            match response.WhichOneof("message"):
                case "predict":
                    run = response.predict
                    self._predictor.predicted(
                        run.sequence_id, epoch=run.epoch, position=run.position, token_ids=[*run.token_ids]
                    )
                case "released":
                    reason = draft_pb2.ReleaseReason.Name(response.released.reason)
                    self._predictor.released(response.released.sequence_id, reason)
                case other:
                    raise _BrokenLinkError(f"it sent {other} where that has no place")
        raise _BrokenLinkError("it ended the stream")


class _BrokenLinkError(RuntimeError):
    """The draft does not keep to the protocol."""


def _request(message: Outgoing) -> draft_pb2.DraftRequest:
    match message:
        case Open():
            return draft_pb2.DraftRequest(open=_open(message))
        case Commit():
            commit = draft_pb2.Commit(
                sequence_id=message.sequence_id, position=message.position, token_ids=message.token_ids
            )
            return draft_pb2.DraftRequest(commit=commit)
        case Window():
            window = draft_pb2.Window(sequence_id=message.sequence_id, tokens=message.tokens)
            return draft_pb2.DraftRequest(window=window)
        case Close():
            return draft_pb2.DraftRequest(close=draft_pb2.Close(sequence_id=message.sequence_id))


def _open(message: Open) -> draft_pb2.Open:
    request = message.sequence.request
    return draft_pb2.Open(
        sequence_id=message.sequence_id,
        sampling=write_sampling(request.sampling),
        prompt_tokens=len(request.prompt),
        min_tokens=request.stops.min_tokens,
        masked_token_ids=sorted(request.stops.token_ids),
    )


def _reason(error: Exception) -> str:
    if isinstance(error, aio.AioRpcError):
        return f"{error.code().name} {error.details()}"
    return str(error) or "it does not answer"
