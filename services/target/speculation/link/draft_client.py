"""DraftClient: keeps a link to one draft service, and carries the RemotePredictor's messages."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from grpc import aio

from outrider.servers.channel import IN_THE_CLEAR, bearer
from outrider.v1 import draft_pb2
from services.draft_protocol.conversions import read_compute_resources, read_vocabulary_match
from services.draft_protocol.protocol import MAX_RESPONSE_BYTES, PROTOCOL_VERSION
from services.draft_protocol.requests import merge_requests, write_request
from services.draft_protocol.responses import read_load
from services.engine.decoder.compute_resources import ComputeResources
from services.engine.decoder.native import NOISE_VERSION
from services.engine.events import VocabularyMatch
from services.service.access.credential_files import Credentials
from services.service.keepalive import PING_MS
from services.service.printable import printable
from services.target.speculation.link.draft_address import DraftAddress
from services.target.speculation.link.draft_reader import ENDED, BrokenLinkError, DraftCall, DraftReader
from services.target.speculation.link.remote_predictor import RemotePredictor
from services.target.speculation.policy.policy_config import PolicyConfig

logger = logging.getLogger(__name__)

_METHOD = f"/{draft_pb2.DESCRIPTOR.services_by_name['DraftService'].full_name}/Draft"
_HELLO_SECONDS = 5.0
_ENDED_UNDER_A_WRITE = "Internal error from Core"  # gRPC's details if the link ends during a write
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    ("grpc.http2.bdp_probe", 0),  # a draft's messages that are not read yet wait on its own side
    ("grpc.keepalive_time_ms", PING_MS),
    ("grpc.http2.ping_timeout_ms", 5_000),  # of every ping; by default a draft that hangs is held for a minute
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


class DraftClient:
    """Tries the address forever: a draft that is away costs speed, but is never an error."""

    def __init__(
        self,
        address: str,
        resources: ComputeResources,
        config: PolicyConfig,
        *,
        credentials: Callable[[], Credentials] = Credentials,
        run_ahead: int | None = None,
        num_alternates: int = 0,
        hears_load: bool = False,
        on_linked: Callable[[], None],
    ) -> None:
        """Call this on the event loop that `start` is called on.

        `credentials` returns those of a new link; `resources` are the target's cores and device. By default `run_ahead`
        is 0 for a draft that competes for these. A draft that runs ahead prepares alternates for `num_alternates` of
        its next predictions. With `hears_load` it is asked to report its load. `on_linked` is called for each new link.
        """
        self.tried = asyncio.Event()
        """Set once it was linked or found absent."""
        self._address = DraftAddress(address)
        self._resources, self._credentials = resources, credentials
        self._config = config
        self._run_ahead = run_ahead
        self._num_alternates = num_alternates
        self._hears_load = hears_load
        self._on_linked = on_linked
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.predictor = RemotePredictor(config, on_outgoing=self._wake)
        self._vocabulary = ""
        self._vocab_size = 0
        self._task: asyncio.Task[None] | None = None

    def start(self, *, vocabulary: str, vocab_size: int) -> None:
        """Begin to keep a link; `vocabulary` is the fingerprint of the target's, which the draft must know."""
        self._vocabulary, self._vocab_size = vocabulary, vocab_size
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the link; it may be started again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self.predictor.disconnected("the target looks for no drafts")

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._news.set)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._address.due - time.monotonic())
            try:
                shown = self._credentials()
                async with _channel(self._address.address, shown) as channel:
                    await self._serve(_draft(channel, shown.token))
            except Exception as error:  # no message or failure of a draft may end this task
                self._lose(error)

    def _lose(self, error: Exception) -> None:
        complaint = f"the draft at {self._address.address} is not there: {_reason(error)}"
        self.predictor.disconnected(complaint)
        self._address.lost(error, time.monotonic())
        is_ours = not isinstance(error, (aio.AioRpcError, TimeoutError, BrokenLinkError))
        self._address.complain(complaint, exc_info=is_ours)
        self.tried.set()

    async def _serve(self, call: DraftCall) -> None:
        address = self._address.address
        reader = DraftReader(call, self.predictor, vocab_size=self._vocab_size)
        async with asyncio.timeout(_HELLO_SECONDS):  # wait_for can lose a cancellation that comes with an error
            hello = await self._greet(call, reader)
        match = read_vocabulary_match(hello.vocabulary_match)
        run_ahead = self._credit(read_compute_resources(hello.place))
        self._address.linked(reader.runs, time.monotonic())
        logger.info("the draft at %s is there: %s", address, self._introduction(hello, match, run_ahead))
        num_alternates = self._num_alternates if run_ahead else 0
        self.predictor.hear_load(read_load(hello.load), hello.max_sequences)
        self.predictor.connected(match, run_ahead=run_ahead, num_alternates=num_alternates)
        self._on_linked()
        self.tried.set()
        tasks = [asyncio.create_task(reader.read()), asyncio.create_task(self._write(call))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            call.cancel()
            logger.info("the draft at %s has sent %s", address, reader.runs)

    def _introduction(self, hello: draft_pb2.DraftHello, match: VocabularyMatch | None, run_ahead: int) -> str:
        weights = printable(hello.weight_format) or "an unknown format"
        return (
            f"{printable(hello.model)} in {weights}, context of {hello.context_length}, "
            f"predicts {self._reach(match, hello.shared_tokens)}, runs ahead by {run_ahead} tokens"
        )

    def _reach(self, match: VocabularyMatch | None, num_shared: int) -> str:
        shared = f"{num_shared} of {self._vocab_size} tokens"
        if match is VocabularyMatch.BYTES:
            return f"through bytes, having {shared}"
        return shared if match is VocabularyMatch.TRANSLATED else "all tokens"

    def _credit(self, draft: ComputeResources) -> int:
        if self._run_ahead is not None:
            return self._run_ahead
        return 0 if self._resources.competes_with(draft) else self._config.run_ahead

    async def _greet(self, call: DraftCall, reader: DraftReader) -> draft_pb2.DraftHello:
        hello = draft_pb2.TargetHello(
            min_protocol_version=PROTOCOL_VERSION,
            max_protocol_version=PROTOCOL_VERSION,
            noise_version=NOISE_VERSION,
            vocabulary_fingerprint=self._vocabulary,
            vocab_size=self._vocab_size,
            hears_load=self._hears_load,
        )
        await call.write(draft_pb2.DraftRequest(hello=hello))
        return await reader.hello()

    async def _write(self, call: DraftCall) -> None:
        """Write until the stream ends; the reading side gets the reason."""
        with suppress(asyncio.InvalidStateError):
            while True:
                await self._news.wait()
                self._news.clear()
                for request in merge_requests(map(write_request, self.predictor.outgoing())):
                    await call.write(request)


def _channel(address: str, shown: Credentials) -> aio.Channel:
    if shown.channel is None:
        return aio.insecure_channel(address, options=(*_OPTIONS, *IN_THE_CLEAR))
    return aio.secure_channel(address, shown.channel, options=_OPTIONS)


def _draft(channel: aio.Channel, token: str | None) -> DraftCall:
    """The call of the protocol; responses stay bytes, since DraftReader parses them with care."""
    write: Callable[[draft_pb2.DraftRequest], bytes] = draft_pb2.DraftRequest.SerializeToString
    method = channel.stream_stream(_METHOD, request_serializer=write, response_deserializer=bytes)
    return method(metadata=bearer(token))


def _reason(error: Exception) -> str:
    if isinstance(error, aio.AioRpcError):
        if error.details() == _ENDED_UNDER_A_WRITE:
            return ENDED
        return f"{error.code().name} {printable(error.details() or '')}"
    return str(error) or "it does not answer"
