"""GarbageDraft: speaks the draft protocol, as far as its behaviour lets it, to no good purpose."""

import itertools
import random
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Self

import grpc
from grpc import aio

from outrider.v1.draft_pb2 import (
    Alternate,
    Commit,
    DraftHello,
    DraftRequest,
    DraftResponse,
    Predict,
    Released,
)

Garbage = DraftResponse | bytes | grpc.StatusCode  # a message, what is no message, or the end of the link
Behaviour = Callable[[AsyncIterator[DraftRequest]], AsyncIterator[Garbage]]
Reply = Callable[[Commit, int], Iterable[Garbage]]

_LONG_RUN = 8192  # tokens in one message
_HELLO = DraftResponse(hello=DraftHello(protocol_version=2, model="garbage", context_length=2048))
_VOCABULARY = range(4, 8192)
_SMALL_VOCABULARY = range(4, 500)  # of the random checkpoints
_LARGEST = 2**32 - 1


# As bytes, since to build them would take the test longer than it should take the target to be rid of them.
NO_MESSAGE = b"\xff" * 100
MILLION_FURTHER = b"\x22\x02\x1a\x00" * 1_000_000  # each the release of sequence 0
STALE_RUN = DraftResponse(predict=Predict(sequence_id=1, epoch=1, position=5, token_ids=[5]))
UNKNOWN_SEQUENCE = DraftResponse(predict=Predict(sequence_id=2**64 - 1, epoch=1, position=5, token_ids=[5]))
OUT_OF_RANGE = DraftResponse(predict=Predict(sequence_id=1, epoch=2**31, position=5, token_ids=[8192]))
SMALL_ALTERNATES = DraftResponse(predict=Predict(sequence_id=1, alternates=[Alternate(epoch=2**31, token_ids=[5])] * 8))
MILLION_ALTERNATES = DraftResponse(predict=Predict(sequence_id=1, alternates=[Alternate()] * 1_000_000))
MILLION_IDS = DraftResponse(predict=Predict(sequence_id=1, epoch=1, token_ids=[5] * 2_000_000))


class GarbageDraft:
    """A server on the test's event loop; counts the links that it was given and the messages that it sent."""

    def __init__(self, address: str, behaviour: Behaviour) -> None:
        self.num_links = self.num_sent = 0
        self._behaviour = behaviour
        self._server = aio.server()
        handler = grpc.stream_stream_rpc_method_handler(
            self._draft, request_deserializer=DraftRequest.FromString, response_serializer=_serialize
        )
        service = grpc.method_handlers_generic_handler("outrider.v1.DraftService", {"Draft": handler})
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(address)

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.stop(grace=None)

    async def _draft(
        self, requests: AsyncIterator[DraftRequest], context: aio.ServicerContext[DraftRequest, Garbage]
    ) -> AsyncIterator[Garbage]:
        self.num_links += 1
        async for message in self._behaviour(_each(requests)):
            self.num_sent += 1
            if isinstance(message, grpc.StatusCode):
                await context.abort(message, f"garbage {self.num_links}\n" * 50)
            yield message


async def _each(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[DraftRequest]:
    async for request in requests:
        yield request
        for further in request.further:
            yield further


def replying(reply: Reply) -> Behaviour:
    """Says hello, then answers each commit; the reply is told how many there have been."""

    async def behaviour(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Garbage]:
        yield _HELLO
        counter = itertools.count(1)
        async for request in requests:
            if request.WhichOneof("message") == "commit":
                for message in reply(request.commit, next(counter)):
                    yield message

    return behaviour


async def silence(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Garbage]:
    """Never says a word."""
    async for _ in requests:
        pass
    return
    yield


async def hanging_up(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Garbage]:
    """Says hello and goodbye."""
    yield _HELLO


async def no_hello(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Garbage]:
    """Predicts without having said who it is."""
    yield _run(1, epoch=1, position=0, token_ids=[5])


def flood_of(garbage: Garbage) -> Behaviour:
    """Says hello, and from the first commit on one and the same thing, as fast as it is read."""

    async def behaviour(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Garbage]:
        yield _HELLO
        await _first_commit(requests)
        while True:
            yield garbage

    return behaviour


def named(name: str) -> Behaviour:
    """Says hello by a name that somebody may want to log, and then bytes that are no message."""

    async def behaviour(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Garbage]:
        yield DraftResponse(hello=DraftHello(protocol_version=2, model=name, weight_format=name[:1000]))
        yield NO_MESSAGE

    return behaviour


async def flood_of_epochs(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Garbage]:
    """Begins anew with every run, each of which makes sense by itself."""
    yield _HELLO
    commit = await _first_commit(requests)
    for epoch in itertools.count(1):
        yield _run(commit.sequence_id, epoch=epoch, position=0, token_ids=[commit.token_ids[0]])


async def flood_of_long_runs(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Garbage]:
    """Runs ahead of its first sequence without regard to the window, by more tokens than memory should hold."""
    yield _HELLO
    commit = await _first_commit(requests)
    for number in itertools.count():
        position = _end(commit) + number * _LONG_RUN
        yield _run(commit.sequence_id, epoch=1, position=position, token_ids=[*range(5000, 5000 + _LONG_RUN)])


async def _first_commit(requests: AsyncIterator[DraftRequest]) -> Commit:
    return await anext(request.commit async for request in requests if request.WhichOneof("message") == "commit")


def never_right(said: Mapping[int, Collection[int]], plausible: Sequence[int]) -> Behaviour:
    """Predicts, at every position, tokens other than those said there, and some nonsense besides.

    Some tokens are more plausible than others: those that a grammar allows in many places, and leads elsewhere from.
    """

    def reply(commit: Commit, count: int) -> Iterator[Garbage]:
        chance = random.Random(count)
        positions = range(_end(commit), _end(commit) + chance.randrange(1, 9))
        token_ids = [_one_but(said.get(position, ()), plausible, chance) for position in positions]
        yield _run(commit.sequence_id, epoch=2 * count, position=_end(commit), token_ids=token_ids)
        if count % 4 == 0:
            yield from chance.choice(_NONSENSE)(commit, count)

    return replying(reply)


def _one_but(said: Collection[int], plausible: Sequence[int], chance: random.Random) -> int:
    others = [token_id for token_id in plausible if token_id not in said]
    if not others or chance.random() < 0.5:
        others = [token_id for token_id in _SMALL_VOCABULARY if token_id not in said]
    return chance.choice(others)


def wrong_tokens(commit: Commit, count: int) -> Iterator[Garbage]:
    """What a draft would send, but for the tokens."""
    token_ids = random.Random(count).sample(_VOCABULARY, 4)
    yield _run(commit.sequence_id, epoch=count, position=_end(commit), token_ids=token_ids)


def ids_out_of_range(commit: Commit, count: int) -> Iterator[Garbage]:
    """Tokens that are none."""
    token_ids = [8192, _LARGEST, 2**31, 2**31 - 1]
    yield _run(commit.sequence_id, epoch=count, position=_end(commit), token_ids=token_ids)


def stale_epochs(commit: Commit, count: int) -> Iterator[Garbage]:
    """Epochs that count down."""
    yield _run(commit.sequence_id, epoch=_LARGEST - count, position=_end(commit), token_ids=[5, 6])


def wrong_positions(commit: Commit, count: int) -> Iterator[Garbage]:
    """Runs far ahead, far behind and with gaps."""
    for offset, position in enumerate((0, _LARGEST, _end(commit) + 100, max(0, _end(commit) - 2))):
        yield _run(commit.sequence_id, epoch=4 * count + offset, position=position, token_ids=[5, 6, 7])


def unknown_sequences(commit: Commit, count: int) -> Iterator[Garbage]:
    """Runs and releases of sequences that were never opened."""
    for sequence_id in (0, commit.sequence_id + 1_000_000, 2**64 - 1):
        yield _run(sequence_id, epoch=count, position=_end(commit), token_ids=[5, 6])
        yield DraftResponse(released=Released(sequence_id=sequence_id, reason="RELEASE_REASON_REFUSED"))


def unasked_alternates(commit: Commit, count: int) -> Iterator[Garbage]:
    """Alternates to tokens that were never predicted, and no run."""
    alternates = [Alternate(position=_LARGEST, token_id=_LARGEST, token_ids=[_LARGEST] * 4, epoch=_LARGEST)] * 8
    yield DraftResponse(predict=Predict(sequence_id=commit.sequence_id, epoch=count, alternates=alternates))


def unknown_reasons(commit: Commit, count: int) -> Iterator[Garbage]:
    """Releases the sequence for a reason that the protocol does not know."""
    yield DraftResponse(released=Released(sequence_id=commit.sequence_id, reason=99))


def empty_messages(commit: Commit, count: int) -> Iterator[Garbage]:
    """A message with nothing in it."""
    yield DraftResponse()


def second_hello(commit: Commit, count: int) -> Iterator[Garbage]:
    """Introduces itself again."""
    yield _HELLO


def half_a_message(commit: Commit, count: int) -> Iterator[Garbage]:
    """The first half of a message as if it were a whole one, then nothing more."""
    whole = _run(commit.sequence_id, epoch=count, position=_end(commit), token_ids=[5, 6, 7, 8]).SerializeToString()
    yield whole[: len(whole) // 2]
    yield grpc.StatusCode.DATA_LOSS


def cancelled(commit: Commit, count: int) -> Iterator[Garbage]:
    """Ends the link as if the target had wanted it."""
    yield grpc.StatusCode.CANCELLED


def talkative(commit: Commit, count: int) -> Iterator[Garbage]:
    """Ends the link with a long and ever other word."""
    yield grpc.StatusCode.INTERNAL


_NONSENSE: tuple[Reply, ...] = (ids_out_of_range, wrong_positions, unknown_sequences, unasked_alternates)


def _run(sequence_id: int, *, epoch: int, position: int, token_ids: list[int]) -> DraftResponse:
    position = min(position, _LARGEST)
    run = Predict(sequence_id=sequence_id, epoch=epoch % 2**32, position=position, token_ids=token_ids)
    return DraftResponse(predict=run)


def _end(commit: Commit) -> int:
    return commit.position + len(commit.token_ids)


def _serialize(message: DraftResponse | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()
