"""DraftServicer: the Draft call: a target's messages to the engine, and its predictions back."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import grpc
from grpc import aio

from outrider.v1 import draft_pb2
from outrider.v1.draft_pb2_grpc import DraftServiceServicer
from services.draft.drafted_sequence import DraftedSequence
from services.draft.drafter import Drafter
from services.draft.engine import DraftEngine
from services.draft.link import (
    AlternatePrediction,
    DraftLink,
    LinkOverflowError,
    Prediction,
    Quotas,
    Release,
    ReleaseReason,
)
from services.draft.vocabularies import Vocabularies, Vocabulary
from services.draft.vocabulary_map import VocabularyMap
from services.engine.grammar import Grammar
from services.engine.grammar_compiler import GrammarError
from services.engine.native import NOISE_VERSION
from services.engine.place import Place
from services.rpc.convert.caching import read_cache
from services.rpc.convert.drafting import (
    read_allowed_tokens,
    read_sampling,
    write_place,
    write_vocabulary_match,
)
from services.rpc.convert.grammar import read_source
from services.rpc.draft_protocol import MAX_COMMIT, PROTOCOL_VERSION

logger = logging.getLogger(__name__)

_CAPACITY = 4096  # messages that may wait for a target that does not read
_MOST_UNHEARD = 1024  # messages of one target that may wait for the engine
_IDS_OF_A_MESSAGE = 32  # that weigh as much as the message
_REASONS = {
    ReleaseReason.OUT_OF_MEMORY: draft_pb2.RELEASE_REASON_OUT_OF_MEMORY,
    ReleaseReason.TOO_LONG: draft_pb2.RELEASE_REASON_TOO_LONG,
    ReleaseReason.REFUSED: draft_pb2.RELEASE_REASON_REFUSED,
}
_UNKNOWN_VOCABULARY = (
    "the target's vocabulary is another one than the draft's; on a CPU it can predict for it with --target-tokenizer"
)
_Context = aio.ServicerContext[draft_pb2.DraftRequest, draft_pb2.DraftResponse]


class DraftServicer(DraftServiceServicer):
    """Serves any number of targets, each on a link of its own; UNAVAILABLE until `open` is called."""

    def __init__(self) -> None:
        self._engine: DraftEngine | None = None
        self._name = ""
        self._quotas = Quotas(max_sequences=0, max_cached_tokens=0)
        self._vocabularies: Vocabularies | None = None

    def open(self, engine: DraftEngine, name: str, quotas: Quotas, vocabularies: Vocabularies) -> None:
        """Begin to serve targets with one of these vocabularies; each link gets these quotas."""
        self._engine, self._name, self._quotas, self._vocabularies = engine, name, quotas, vocabularies

    async def Draft(  # type: ignore[override]  # noqa: N802 - it writes to the context, so that a cut is seen here
        self, request_iterator: AsyncIterator[draft_pb2.DraftRequest], context: _Context
    ) -> None:
        """One target's link, for as long as it lasts."""
        if (engine := self._engine) is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the model is still being loaded")
        vocabulary = await self._check_hello(await anext(request_iterator, None), context)
        await context.write(draft_pb2.DraftResponse(hello=self._hello(engine, vocabulary)))
        link = DraftLink(self._quotas, capacity=_CAPACITY)
        engine.join(link)
        reader = asyncio.create_task(_read(request_iterator, engine, link, vocabulary.map))
        reader.add_done_callback(lambda _: link.hang_up())
        try:
            async for batch in link.batches():
                response, *further = map(_response, batch)
                response.further.extend(further)
                await context.write(response)
            await reader
        except LinkOverflowError as error:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        except _ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            reader.cancel()
            engine.leave(link)

    def _hello(self, engine: DraftEngine, vocabulary: Vocabulary) -> draft_pb2.DraftHello:
        return draft_pb2.DraftHello(
            protocol_version=PROTOCOL_VERSION,
            model=self._name,
            context_length=engine.model.context_length,
            max_sequences=self._quotas.max_sequences,
            max_cached_tokens=self._quotas.max_cached_tokens,
            vocabulary_match=write_vocabulary_match(vocabulary.match),
            shared_tokens=vocabulary.num_shared,
            place=write_place(Place.here(device=engine.config.device, threads=engine.config.threads)),
            weight_format=engine.model.weights,
        )

    async def _check_hello(self, request: draft_pb2.DraftRequest | None, context: _Context) -> Vocabulary:
        if request is None or request.WhichOneof("message") != "hello":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message of a link must be a hello")
        if reason := _mismatch(hello := request.hello):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
        assert self._vocabularies is not None
        find = self._vocabularies.find
        vocabulary = await asyncio.to_thread(find, hello.vocabulary_fingerprint, hello.vocab_size)
        if vocabulary is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, _UNKNOWN_VOCABULARY)
        return vocabulary


class _ProtocolError(RuntimeError):
    """A message that has no place."""


def _mismatch(hello: draft_pb2.TargetHello) -> str:
    """Why the two cannot work together, whatever the vocabulary; empty if they can."""
    oldest, newest = hello.min_protocol_version, hello.max_protocol_version
    if not oldest <= PROTOCOL_VERSION <= newest:
        return f"the target speaks protocols {oldest} to {newest}; this draft speaks {PROTOCOL_VERSION}"
    if hello.noise_version != NOISE_VERSION:
        return f"the target draws with noise version {hello.noise_version}; this draft with {NOISE_VERSION}"
    return ""


async def _read(
    requests: AsyncIterator[draft_pb2.DraftRequest],
    engine: DraftEngine,
    link: DraftLink,
    vocabulary: VocabularyMap | None,
) -> None:
    """Read no faster than the engine hears, so that a target that floods is held back."""
    num_unheard = 0
    async for request in requests:
        said = [request, *request.further]
        commands: list[Callable[[Drafter], None]] = []
        for each in said:
            if each.open.HasField("grammar"):  # it takes long to compile
                engine.post(*commands)
                commands.clear()
            commands.append(await _command(engine, link, each, vocabulary))
        engine.post(*commands)
        num_unheard += sum(1 + len(each.commit.token_ids) // _IDS_OF_A_MESSAGE for each in said)
        if num_unheard >= _MOST_UNHEARD:
            await engine.heard()
            num_unheard = 0


async def _command(
    engine: DraftEngine, link: DraftLink, request: draft_pb2.DraftRequest, vocabulary: VocabularyMap | None
) -> Callable[[Drafter], None]:
    match request.WhichOneof("message"):
        case "open":
            return await _open(engine, link, request.open, vocabulary)
        case "commit":
            commit, token_ids = request.commit, [*request.commit.token_ids]
            if (size := len(token_ids)) > MAX_COMMIT:
                raise _ProtocolError(f"a commit has {size} token ids; at most {MAX_COMMIT} are allowed")
            return lambda drafter: drafter.commit(
                link, commit.sequence_id, commit.position, token_ids, wanted=commit.wanted
            )
        case "window":
            window = request.window
            return lambda drafter: drafter.window(link, window.sequence_id, window.tokens, window.alternates)
        case "close":
            return lambda drafter: drafter.close(link, request.close.sequence_id)
        case other:
            raise _ProtocolError(f"{other} has no place behind the hello")


async def _open(
    engine: DraftEngine, link: DraftLink, message: draft_pb2.Open, vocabulary: VocabularyMap | None
) -> Callable[[Drafter], None]:
    """A grammar is compiled on a thread, for which the next messages wait; one that is not understood is refused."""
    grammar = None
    if message.HasField("grammar"):
        compile_it = engine.model.grammars.compile
        try:
            grammar = await asyncio.to_thread(compile_it, read_source(message.grammar), looks_ahead=False)
        except GrammarError as error:
            logger.info("a sequence is refused: its grammar cannot be followed: %s", error)
            return lambda drafter: drafter.refuse(link, message.sequence_id)
    sequence = _sequence(message, vocabulary, grammar, vocab_size=engine.model.checkpoint.config.vocab_size)
    return lambda drafter: drafter.open(link, message.sequence_id, sequence)


def _sequence(
    message: draft_pb2.Open, vocabulary: VocabularyMap | None, grammar: Grammar | None, *, vocab_size: int
) -> DraftedSequence:
    size = vocab_size if vocabulary is None else vocabulary.target_size
    return DraftedSequence(
        read_sampling(message.sampling, read_allowed_tokens(message.allowed_tokens, vocab_size=size)),
        num_prompt=message.prompt_tokens,
        min_tokens=message.min_tokens,
        masked_ids=[*message.masked_token_ids],
        grammar=grammar,
        cache_scope=read_cache(message.cache).scope,
        vocabulary=vocabulary,
    )


def _response(message: Prediction | AlternatePrediction | Release) -> draft_pb2.DraftResponse:
    match message:
        case AlternatePrediction():
            alternate = draft_pb2.Alternate(
                position=message.position,
                token_id=message.token_id,
                token_ids=message.token_ids,
                epoch=message.epoch,
            )
            return draft_pb2.DraftResponse(
                predict=draft_pb2.Predict(sequence_id=message.sequence_id, alternates=[alternate])
            )
        case Prediction():
            predict = draft_pb2.Predict(
                sequence_id=message.sequence_id,
                epoch=message.epoch,
                position=message.position,
                token_ids=message.token_ids,
            )
            return draft_pb2.DraftResponse(predict=predict)
        case Release():
            released = draft_pb2.Released(sequence_id=message.sequence_id, reason=_REASONS[message.reason])
            return draft_pb2.DraftResponse(released=released)
