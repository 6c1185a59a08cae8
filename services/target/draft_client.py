"""DraftClient: keeps a link to a draft service, and carries what the RemotePredictor says and hears."""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle, islice

import grpc
from grpc import aio

from outrider.v1 import draft_pb2, draft_pb2_grpc
from services.engine.events import VocabularyMatch
from services.engine.native import NOISE_VERSION
from services.engine.place import Place
from services.rpc.convert.caching import write_cache
from services.rpc.convert.drafting import read_place, read_vocabulary_match, write_allowed_tokens, write_sampling
from services.rpc.convert.grammar import write_grammar
from services.rpc.draft_protocol import PROTOCOL_VERSION
from services.target.backoff import Backoff
from services.target.draft_messages import Close, Commit, Open, Outgoing, Window
from services.target.patience import Patience
from services.target.remote_predictor import RemotePredictor
from services.target.run_count import RunCount

logger = logging.getLogger(__name__)

_HELLO_SECONDS = 5.0
_MOST_AT_ONCE = 32  # messages: so many of the longest there are stay below what a draft receives
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.1, 2.0  # seconds
_LONGEST_REFUSED_BACKOFF = 30.0  # where every draft has said that it cannot work with this target
_LONGEST_WAIT = 0.1  # seconds that a step may wait for predictions under way
_RUN_AHEAD = 8  # tokens of credit beyond what the next pass can verify, for a draft that is not in our way
_OPTIONS = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # of every ping; by default a draft that hangs is held for a minute
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
_Call = aio.StreamStreamCall[draft_pb2.DraftRequest, draft_pb2.DraftResponse]


class DraftClient:
    """Tries the addresses in turn, for ever: a draft that is not there costs speed, never an error."""

    def __init__(
        self, addresses: Sequence[str], place: Place, *, run_ahead: int | None = None, num_alternates: int = 0
    ) -> None:
        """Call this on the event loop that `start` is called on. `place` is where the target computes; without
        `run_ahead`, a draft that competes for it gets no credit ahead of the target's passes, and any other does. One
        that runs ahead prepares for so many of its next predictions to be wrong.
        """
        self._addresses = addresses
        self._place = place
        self._run_ahead = run_ahead
        self._num_alternates = num_alternates
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.predictor = RemotePredictor(patience=Patience(longest=_LONGEST_WAIT), on_outgoing=self._wake)
        self._vocabulary = ""
        self._vocab_size = 0
        self._linked_at = 0.0
        self._complaints: dict[str, str] = {}  # the latest of each address that is not there
        self._refused: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self, *, vocabulary: str, vocab_size: int) -> None:
        """Begin to keep a link up; `vocabulary` is the fingerprint of the target's, which the draft must know."""
        self._vocabulary, self._vocab_size = vocabulary, vocab_size
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Give the link up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._news.set)

    async def _run(self) -> None:
        backoff = Backoff(first=_FIRST_BACKOFF)
        for address in cycle(self._addresses):
            try:
                async with aio.insecure_channel(address, options=_OPTIONS) as channel:
                    await self._serve(address, draft_pb2_grpc.DraftServiceStub(channel).Draft())
            except Exception as error:  # whatever a draft says or does must not end this task
                link_seconds = 0.0 if self.predictor.absence else time.monotonic() - self._linked_at
                self._lose(address, error)
                await asyncio.sleep(backoff.after(link_seconds, longest=self._longest_backoff(address, error)))

    def _longest_backoff(self, address: str, error: Exception) -> float:
        is_refusal = isinstance(error, aio.AioRpcError) and error.code() is grpc.StatusCode.FAILED_PRECONDITION
        self._refused = self._refused | {address} if is_refusal else self._refused - {address}
        return _LONGEST_REFUSED_BACKOFF if self._refused.issuperset(self._addresses) else _LONGEST_BACKOFF

    def _lose(self, address: str, error: Exception) -> None:
        complaint = f"the draft at {address} is not there: {_reason(error)}"
        self.predictor.disconnected(complaint)
        if self._complaints.get(address) != complaint:  # once, not at every try
            is_ours = not isinstance(error, (aio.AioRpcError, TimeoutError, _BrokenLinkError))
            logger.warning("%s", complaint, exc_info=is_ours)
        self._complaints[address] = complaint

    async def _serve(self, address: str, call: _Call) -> None:
        hello = await asyncio.wait_for(self._greet(call), _HELLO_SECONDS)
        match, run_ahead = read_vocabulary_match(hello.vocabulary_match), self._credit(read_place(hello.place))
        logger.info(
            "the draft at %s is there: %s in %s, context of %s, predicts %s, runs ahead by %s tokens",
            address,
            hello.model,
            hello.weight_format or "an unknown format",
            hello.context_length,
            self._reach(match, hello.shared_tokens),
            run_ahead,
        )
        self._complaints.pop(address, None)
        self._linked_at = time.monotonic()
        num_alternates = self._num_alternates if run_ahead else 0
        self.predictor.connected(match, run_ahead=run_ahead, num_alternates=num_alternates)
        runs = RunCount()
        tasks = [asyncio.create_task(self._read(call, runs)), asyncio.create_task(self._write(call))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            call.cancel()
            logger.info("the draft at %s has sent %s", address, runs)

    def _reach(self, match: VocabularyMatch | None, num_shared: int) -> str:
        shared = f"{num_shared} of {self._vocab_size} tokens"
        if match is VocabularyMatch.BYTES:
            return f"through bytes, having {shared}"
        return shared if match is VocabularyMatch.TRANSLATED else "all tokens"

    def _credit(self, draft: Place) -> int:
        if self._run_ahead is not None:
            return self._run_ahead
        return 0 if self._place.competes_with(draft) else _RUN_AHEAD

    async def _greet(self, call: _Call) -> draft_pb2.DraftHello:
        hello = draft_pb2.TargetHello(
            min_protocol_version=PROTOCOL_VERSION,
            max_protocol_version=PROTOCOL_VERSION,
            noise_version=NOISE_VERSION,
            vocabulary_fingerprint=self._vocabulary,
            vocab_size=self._vocab_size,
        )
        await call.write(draft_pb2.DraftRequest(hello=hello))
        answer = await call.read()
        if not isinstance(answer, draft_pb2.DraftResponse) or answer.WhichOneof("message") != "hello":
            raise _BrokenLinkError("it does not say hello")
        return answer.hello

    async def _write(self, call: _Call) -> None:
        """Write until the stream has ended: why it has, the reading side hears."""
        with suppress(asyncio.InvalidStateError):
            while True:
                await self._news.wait()
                self._news.clear()
                outgoing = map(_request, self.predictor.outgoing())
                while (request := next(outgoing, None)) is not None:
                    request.further.extend(islice(outgoing, _MOST_AT_ONCE - 1))
                    await call.write(request)

    async def _read(self, call: _Call, runs: RunCount) -> None:
        while isinstance(read := await call.read(), draft_pb2.DraftResponse):
            for response in (read, *read.further):
                self._hear(response, runs)
        raise _BrokenLinkError("it ended the stream")

    def _hear(self, response: draft_pb2.DraftResponse, runs: RunCount) -> None:
        match response.WhichOneof("message"):
            case "predict":
                self._take(response.predict, runs)
            case "released":
                self.predictor.released(response.released.sequence_id, _release_reason(response.released))
            case other:
                raise _BrokenLinkError(f"it sent {other} where that has no place")

    def _take(self, message: draft_pb2.Predict, runs: RunCount) -> None:
        if message.token_ids or not message.alternates:
            self._take_run(message, runs)
        for alternate in message.alternates:
            self._take_alternate(message.sequence_id, alternate)

    def _take_alternate(self, sequence_id: int, alternate: draft_pb2.Alternate) -> None:
        token_ids = [*alternate.token_ids]
        if max([alternate.token_id, *token_ids]) < self._vocab_size:
            self.predictor.alternate_predicted(
                sequence_id,
                epoch=alternate.epoch,
                position=alternate.position,
                token_id=alternate.token_id,
                token_ids=token_ids,
            )

    def _take_run(self, run: draft_pb2.Predict, runs: RunCount) -> None:
        token_ids = [*run.token_ids]
        is_in_range = max(token_ids, default=0) < self._vocab_size
        is_useful = is_in_range and self.predictor.predicted(
            run.sequence_id, epoch=run.epoch, position=run.position, token_ids=token_ids
        )
        runs.add(is_useful=is_useful, is_in_range=is_in_range)
        if runs.notice():
            logger.warning("what the draft predicts is of no use, it comes too late or makes no sense: %s", runs)


class _BrokenLinkError(RuntimeError):
    """The draft does not keep to the protocol."""


def _request(message: Outgoing) -> draft_pb2.DraftRequest:
    match message:
        case Open():
            return draft_pb2.DraftRequest(open=_open(message))
        case Commit():
            commit = draft_pb2.Commit(
                sequence_id=message.sequence_id,
                position=message.position,
                token_ids=message.token_ids,
                wanted=message.wanted,
            )
            return draft_pb2.DraftRequest(commit=commit)
        case Window():
            window = draft_pb2.Window(
                sequence_id=message.sequence_id, tokens=message.tokens, alternates=message.alternates
            )
            return draft_pb2.DraftRequest(window=window)
        case Close():
            return draft_pb2.DraftRequest(close=draft_pb2.Close(sequence_id=message.sequence_id))


def _open(message: Open) -> draft_pb2.Open:
    request = message.sequence.request
    grammar = None if request.grammar is None else write_grammar(request.grammar.source)
    return draft_pb2.Open(
        sequence_id=message.sequence_id,
        sampling=write_sampling(request.sampling),
        prompt_tokens=len(request.prompt),
        min_tokens=request.stops.min_tokens,
        masked_token_ids=sorted(request.stops.token_ids),
        grammar=grammar,
        cache=write_cache(request.cache),
        allowed_tokens=write_allowed_tokens(request.sampling.allowed_tokens),
    )


def _release_reason(message: draft_pb2.Released) -> str:
    known = draft_pb2.ReleaseReason.DESCRIPTOR.values_by_number
    return known[message.reason].name if message.reason in known else f"reason {message.reason}"


def _reason(error: Exception) -> str:
    if isinstance(error, aio.AioRpcError):
        return f"{error.code().name} {error.details()}"
    return str(error) or "it does not answer"
