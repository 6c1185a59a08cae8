"""DraftServicer: the Draft call: a target's messages to the engine, and its predictions back."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from outrider.v1 import draft_pb2
from outrider.v1.draft_pb2_grpc import DraftServiceServicer
from services.draft.drafted_sequence import DraftedSequence
from services.draft.drafter import Drafter
from services.draft.engine import DraftEngine
from services.draft.link import DraftLink, LinkCutError, LinkOverflowError, Quotas
from services.draft.message_check import ProtocolError, check_count, check_message
from services.draft.vocabulary.vocabularies import Vocabularies, Vocabulary
from services.draft_protocol.conversions import write_compute_resources, write_vocabulary_match
from services.draft_protocol.messages import Close, Commit, DraftLoad, DraftMessage, Open, Window
from services.draft_protocol.protocol import PROTOCOL_VERSION
from services.draft_protocol.requests import read_request
from services.draft_protocol.responses import write_load, write_response
from services.engine.decoder.compute_resources import ComputeResources
from services.engine.decoder.native import NOISE_VERSION
from services.engine.grammar.compiler import GrammarError
from services.engine.grammar.grammar import Grammar
from services.service.access.caller import Callers
from services.service.event_loop_share import EventLoopShare
from services.service.log_rate_limit import LogRateLimit
from services.service.printable import printable

logger = logging.getLogger(__name__)

_MOST_LINKS = 32
_MOST_TOKENS = 1 << 20  # of a target's vocabulary
_HELLO_SECONDS = 10.0
_SEND_SECONDS = 10.0
_LOAD_SECONDS = 0.25  # between two checks whether the load has changed
_CAPACITY = 4096  # messages that may wait for a target that does not read
_MOST_UNHEARD = 1024  # messages of one target that may wait for the engine
_IDS_OF_A_MESSAGE = 32  # so many ids weigh as much as one message
_UNKNOWN_VOCABULARY = (
    "the target's vocabulary is another one than the draft's; on a CPU it can predict for it with --target-tokenizer"
)
_Context = aio.ServicerContext[draft_pb2.DraftRequest, draft_pb2.DraftResponse]


class DraftServicer(DraftServiceServicer):
    """Serves any number of targets, each on its own link; UNAVAILABLE until `open`, and while `refuse` has a reason."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._engine: DraftEngine | None = None
        self.name = ""
        self._quotas = Quotas(max_sequences=0, max_cached_tokens=0)
        self._vocabularies: Vocabularies | None = None
        self._num_links = 0
        self.links: set[DraftLink] = set()
        self._refusal = "the model is still being loaded"
        self._log_limit, self._refusal_limit = LogRateLimit(), LogRateLimit()

    def open(self, engine: DraftEngine, name: str, quotas: Quotas, vocabularies: Vocabularies) -> None:
        """Begin to serve targets with one of these vocabularies; each link gets these quotas."""
        self._engine, self.name, self._quotas, self._vocabularies = engine, name, quotas, vocabularies

    def renew(self, engine: DraftEngine) -> None:
        """Serve with another engine from now on."""
        self._engine = engine

    @property
    def is_open(self) -> bool:
        """Whether there is a model to serve with."""
        return self._engine is not None

    def refuse(self, reason: str) -> None:
        """Refuse further links from now on for this reason; an empty reason accepts them again."""
        self._refusal = reason

    def cut_links(self, reason: str) -> None:
        """End all links, which their targets may open again."""
        for link in self.links:
            link.cut(reason)

    async def Draft(  # type: ignore[override]  # noqa: N802 - it writes to the context, so that a cut is seen here
        self, request_iterator: AsyncIterator[draft_pb2.DraftRequest], context: _Context
    ) -> None:
        """Serve one target's link until it ends."""
        target = self._callers.of(context).name
        if (engine := self._engine) is None or self._refusal:
            await context.abort(grpc.StatusCode.UNAVAILABLE, self._refusal)
        if self._num_links >= _MOST_LINKS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"there are {_MOST_LINKS} links, as many as may be")
        try:
            await self._serve(engine, target, request_iterator, context)
        except LinkCutError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        except LinkOverflowError as error:
            await self._end(context, target, grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        except ProtocolError as error:
            await self._end(context, target, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except DecodeError:
            await self._end(context, target, grpc.StatusCode.INVALID_ARGUMENT, "there were bytes that are no message")

    async def _serve(
        self, engine: DraftEngine, target: str, requests: AsyncIterator[draft_pb2.DraftRequest], context: _Context
    ) -> None:
        self._num_links += 1
        link: DraftLink | None = None
        try:
            hello = await _first_hello(requests)
            vocabulary = await self._check_hello(hello, context)
            link = DraftLink(self._quotas, capacity=_CAPACITY, log_limit=self._refusal_limit)
            if self._refusal or engine is not self._engine:  # by now
                link.cut(self._refusal or "the draft's engine has failed")
            self.links.add(link)
            await context.write(draft_pb2.DraftResponse(hello=self._hello(engine, vocabulary, engine.load(link))))
            engine.join(link)
            logger.info("the target %s is there", target)
            reporting = asyncio.create_task(_report_load(engine, link)) if hello.hears_load else None
            try:
                await _carry(engine, link, requests, context, vocabulary)
            finally:
                if reporting is not None:
                    reporting.cancel()
        finally:
            self._num_links -= 1
            if link is not None:
                self.links.discard(link)
                engine.leave(link)

    async def _end(self, context: _Context, target: str, code: grpc.StatusCode, reason: str) -> None:
        if self._log_limit.may_log():
            logger.warning("a target's link is closed: %s: %s%s", target, reason, self._log_limit.left_out())
        await context.abort(code, reason)

    def _hello(self, engine: DraftEngine, vocabulary: Vocabulary, load: DraftLoad) -> draft_pb2.DraftHello:
        return draft_pb2.DraftHello(
            protocol_version=PROTOCOL_VERSION,
            model=self.name,
            context_length=engine.model.context_length,
            max_sequences=self._quotas.max_sequences,
            max_cached_tokens=self._quotas.max_cached_tokens,
            vocabulary_match=write_vocabulary_match(vocabulary.match),
            shared_tokens=vocabulary.num_shared,
            place=write_compute_resources(
                ComputeResources.here(device=engine.config.device, threads=engine.config.threads)
            ),
            weight_format=engine.model.weights,
            load=write_load(load),
        )

    async def _check_hello(self, hello: draft_pb2.TargetHello, context: _Context) -> Vocabulary:
        if reason := _mismatch(hello):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
        assert self._vocabularies is not None
        find = self._vocabularies.find
        vocabulary = await asyncio.to_thread(find, hello.vocabulary_fingerprint, hello.vocab_size)
        if vocabulary is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, _UNKNOWN_VOCABULARY)
        return vocabulary


def _mismatch(hello: draft_pb2.TargetHello) -> str:
    """Why the two cannot work together, apart from the vocabulary; empty if they can."""
    oldest, newest = hello.min_protocol_version, hello.max_protocol_version
    if not oldest <= PROTOCOL_VERSION <= newest:
        return f"the target speaks protocols {oldest} to {newest}; this draft speaks {PROTOCOL_VERSION}"
    if hello.noise_version != NOISE_VERSION:
        return f"the target draws with noise version {hello.noise_version}; this draft with {NOISE_VERSION}"
    if hello.vocab_size > _MOST_TOKENS:
        return f"the target's model has {hello.vocab_size} token ids; this draft knows of {_MOST_TOKENS} at most"
    return ""


async def _first_hello(requests: AsyncIterator[draft_pb2.DraftRequest]) -> draft_pb2.TargetHello:
    try:
        request = await asyncio.wait_for(anext(requests, None), _HELLO_SECONDS)
    except TimeoutError:
        raise ProtocolError(f"there was no hello within {_HELLO_SECONDS:g} s") from None
    if request is None or request.WhichOneof("message") != "hello":
        raise ProtocolError("the first message of a link must be a hello")
    return request.hello


async def _report_load(engine: DraftEngine, link: DraftLink) -> None:
    """Send the target the draft's load whenever it has changed."""
    reported: DraftLoad | None = None
    while True:
        if (load := engine.load(link)) != reported:
            link.send_load(reported := load)
        await asyncio.sleep(_LOAD_SECONDS)


async def _carry(
    engine: DraftEngine,
    link: DraftLink,
    requests: AsyncIterator[draft_pb2.DraftRequest],
    context: _Context,
    vocabulary: Vocabulary,
) -> None:
    """Carry the messages of both sides until the target ends the link or an error does."""
    reader = asyncio.create_task(_read(requests, engine, link, vocabulary))
    reader.add_done_callback(lambda _: link.hang_up())
    try:
        async for batch in link.batches():
            await _send(batch, context)
        await reader
    finally:
        reader.cancel()


async def _send(batch: Iterable[DraftMessage | DraftLoad], context: _Context) -> None:
    response, *further = map(write_response, batch)
    response.further.extend(further)
    try:
        await asyncio.wait_for(context.write(response), _SEND_SECONDS)
    except TimeoutError:
        raise LinkOverflowError(f"the target has read nothing for {_SEND_SECONDS:g} s") from None


async def _read(
    requests: AsyncIterator[draft_pb2.DraftRequest],
    engine: DraftEngine,
    link: DraftLink,
    vocabulary: Vocabulary,
) -> None:
    """Read no faster than the engine handles commands: backpressure for a target that floods the draft."""
    num_unheard, share = 0, EventLoopShare()
    async for request in requests:
        check_count(request)
        commands: list[Callable[[Drafter], None]] = []
        seconds = 0.0
        for each in (request, *request.further):
            check_message(each)
            is_long = each.open.HasField("grammar")  # to compile
            if commands and (is_long or num_unheard >= _MOST_UNHEARD):
                engine.post(*commands)
                commands.clear()
            if num_unheard >= _MOST_UNHEARD:
                await engine.heard()
                num_unheard = 0
            began = time.thread_time()
            commands.append(await _command(engine, link, each, vocabulary))
            seconds += 0.0 if is_long else time.thread_time() - began
            num_unheard += _weight(each)
        engine.post(*commands)
        if link.is_in_vain:
            raise ProtocolError("most of what was said is about sequences that are not open")
        await asyncio.sleep(share.rest_after(seconds))


def _weight(request: draft_pb2.DraftRequest) -> int:
    """The cost of handling a message, as a number of messages without ids."""
    sampling, masked = request.open.sampling, request.open.masked_token_ids
    return 1 + (len(request.commit.token_ids) + len(masked) + len(sampling.logit_bias)) // _IDS_OF_A_MESSAGE


async def _command(
    engine: DraftEngine, link: DraftLink, request: draft_pb2.DraftRequest, vocabulary: Vocabulary
) -> Callable[[Drafter], None]:
    """The drafter's command for a message whose sizes check_message has checked."""
    match read_request(request, vocab_size=vocabulary.size):
        case Open() as message:
            return await _open(engine, link, message, vocabulary)
        case Commit(number, position, token_ids, wanted, least):
            return lambda drafter: drafter.commit(link, number, position, token_ids, wanted=wanted, least_chance=least)
        case Window(sequence_id, tokens, alternates):
            return lambda drafter: drafter.window(link, sequence_id, tokens, alternates)
        case Close(sequence_id):
            return lambda drafter: drafter.close(link, sequence_id)


async def _open(
    engine: DraftEngine, link: DraftLink, message: Open, vocabulary: Vocabulary
) -> Callable[[Drafter], None]:
    """The command that opens a sequence, or that refuses it if its grammar is invalid or too costly.

    The messages after it wait while the grammar is compiled.
    """
    grammar: Grammar | None = None
    if message.grammar is not None:
        try:
            trial = await engine.grammars.try_out(message.grammar, str(id(link)), looks_ahead=False)
            grammar = await asyncio.to_thread(engine.model.grammars.compile_again, trial)
        except GrammarError as error:
            if link.log_limit.may_log():
                reason = printable(str(error)) + link.log_limit.left_out()
                logger.info("a sequence is refused: its grammar cannot be followed: %s", reason)
            return lambda drafter: drafter.refuse(link, message.sequence_id)
    sequence = DraftedSequence(
        engine.own_params(message.sampling),
        vocabulary.translation(message.sampling),
        num_prompt=message.num_prompt,
        min_tokens=message.min_tokens,
        masked_ids=message.masked_ids,
        grammar=grammar,
        cache_scope=message.cache.scope(adapter := engine.adapters.get(message.lora)),
        adapter=adapter,
        traceparent=message.traceparent,
    )
    return lambda drafter: drafter.open(link, message.sequence_id, sequence)
