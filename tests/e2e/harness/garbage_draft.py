"""Behaviours of drafts that speak the protocol, as far as they keep to it, to no good purpose."""

import itertools
import random
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from collections.abc import Sequence as Seq

import grpc

from benchmarks.drafts.scripted_draft import (
    HELLO,
    LARGEST,
    Behaviour,
    Reply,
    Said,
    commits,
    end_of,
    prediction,
    replying,
)
from outrider.v1.draft_pb2 import (
    RELEASE_REASON_REFUSED,
    Alternate,
    Commit,
    DraftHello,
    DraftRequest,
    DraftResponse,
    Predict,
    Released,
)

_LONG_RUN = 8192  # tokens in one message
_VOCABULARY = range(4, 8192)
_SMALL_VOCABULARY = range(4, 500)  # of the random checkpoints


# As bytes, since to build them would take the test longer than it should take the target to be rid of them.
NO_MESSAGE = b"\xff" * 100
MILLION_FURTHER = b"\x22\x02\x1a\x00" * 1_000_000  # each the release of sequence 0
STALE_RUN = DraftResponse(predict=Predict(sequence_id=1, epoch=1, position=5, token_ids=[5]))
UNKNOWN_SEQUENCE = DraftResponse(predict=Predict(sequence_id=2**64 - 1, epoch=1, position=5, token_ids=[5]))
OUT_OF_RANGE = DraftResponse(predict=Predict(sequence_id=1, epoch=2**31, position=5, token_ids=[8192]))
SMALL_ALTERNATES = DraftResponse(predict=Predict(sequence_id=1, alternates=[Alternate(epoch=2**31, token_ids=[5])] * 8))
MILLION_ALTERNATES = DraftResponse(predict=Predict(sequence_id=1, alternates=[Alternate()] * 1_000_000))
MILLION_IDS = DraftResponse(predict=Predict(sequence_id=1, epoch=1, token_ids=[5] * 2_000_000))


async def silence(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Said]:
    """Never sends a message."""
    async for _ in requests:
        pass
    return
    yield  # type: ignore[unreachable]  # which makes it a generator


async def hanging_up(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Said]:
    """Sends a hello and ends the stream."""
    yield HELLO


async def no_hello(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Said]:
    """Predicts without a hello before."""
    yield prediction(1, epoch=1, position=0, token_ids=[5])


def flood_of(garbage: Said) -> Behaviour:
    """Sends a hello, and from the first commit on one and the same message, as fast as it is read."""

    async def behaviour(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Said]:
        yield HELLO
        await anext(commits(requests))
        while True:
            yield garbage

    return behaviour


def named(name: str) -> Behaviour:
    """Sends a hello with a hostile name for the log, then bytes that are no message, and reads on."""

    async def behaviour(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Said]:
        yield DraftResponse(hello=DraftHello(protocol_version=2, model=name, weight_format=name[:1000]))
        yield NO_MESSAGE
        async for _ in requests:  # an end could be heard of before that
            pass

    return behaviour


async def flood_of_epochs(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Said]:
    """Starts an epoch with every run; each run makes sense by itself."""
    yield HELLO
    commit = await anext(commits(requests))
    for epoch in itertools.count(1):
        yield prediction(commit.sequence_id, epoch=epoch, position=0, token_ids=[commit.token_ids[0]])


async def flood_of_long_runs(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Said]:
    """Runs ahead of its first sequence without regard to the window, by more tokens than memory should hold."""
    yield HELLO
    commit = await anext(commits(requests))
    for number in itertools.count():
        position = end_of(commit) + number * _LONG_RUN
        yield prediction(commit.sequence_id, epoch=1, position=position, token_ids=[*range(5000, 5000 + _LONG_RUN)])


def never_right(said: Mapping[int, Collection[int]], plausible: Seq[int]) -> Behaviour:
    """Predicts, at every position, tokens other than those said there, and some nonsense besides.

    Some tokens are more plausible than others: those that a grammar allows in many places, and leads elsewhere from.
    No nonsense has a later epoch than what is predicted next, which would not be heard.
    """

    def reply(commit: Commit, count: int) -> Iterator[Said]:
        rng = random.Random(count)
        positions = range(end_of(commit), end_of(commit) + rng.randrange(1, 9))
        token_ids = [_one_but(said.get(position, ()), plausible, rng) for position in positions]
        yield prediction(commit.sequence_id, epoch=4 * count, position=end_of(commit), token_ids=token_ids)
        if count % 4 == 0:
            yield from rng.choice(_NONSENSE)(commit, count)

    return replying(reply)


def _one_but(said: Collection[int], plausible: Seq[int], rng: random.Random) -> int:
    others = [token_id for token_id in plausible if token_id not in said]
    if not others or rng.random() < 0.5:
        others = [token_id for token_id in _SMALL_VOCABULARY if token_id not in said]
    return rng.choice(others)


def wrong_tokens(commit: Commit, count: int) -> Iterator[Said]:
    """What a draft would send, but for the tokens."""
    token_ids = random.Random(count).sample(_VOCABULARY, 4)
    yield prediction(commit.sequence_id, epoch=count, position=end_of(commit), token_ids=token_ids)


def ids_out_of_range(commit: Commit, count: int) -> Iterator[Said]:
    """Ids that are no tokens."""
    token_ids = [8192, LARGEST, 2**31, 2**31 - 1]
    yield prediction(commit.sequence_id, epoch=count, position=end_of(commit), token_ids=token_ids)


def stale_epochs(commit: Commit, count: int) -> Iterator[Said]:
    """Epochs that count down."""
    yield prediction(commit.sequence_id, epoch=LARGEST - count, position=end_of(commit), token_ids=[5, 6])


def wrong_positions(commit: Commit, count: int) -> Iterator[Said]:
    """Runs at positions far ahead, far too early and with gaps."""
    for offset, position in enumerate((0, LARGEST, end_of(commit) + 100, max(0, end_of(commit) - 2))):
        yield prediction(commit.sequence_id, epoch=4 * count + offset, position=position, token_ids=[5, 6, 7])


def unknown_sequences(commit: Commit, count: int) -> Iterator[Said]:
    """Runs and releases of sequences that were never opened."""
    for sequence_id in (0, commit.sequence_id + 1_000_000, 2**64 - 1):
        yield prediction(sequence_id, epoch=count, position=end_of(commit), token_ids=[5, 6])
        yield DraftResponse(released=Released(sequence_id=sequence_id, reason=RELEASE_REASON_REFUSED))


def unasked_alternates(commit: Commit, count: int) -> Iterator[Said]:
    """Alternates to tokens that were never predicted, and no run."""
    alternates = [Alternate(position=LARGEST, token_id=LARGEST, token_ids=[LARGEST] * 4, epoch=LARGEST)] * 8
    yield DraftResponse(predict=Predict(sequence_id=commit.sequence_id, epoch=count, alternates=alternates))


def unknown_reasons(commit: Commit, count: int) -> Iterator[Said]:
    """Releases the sequence for a reason that the protocol does not know."""
    yield DraftResponse(released=Released(sequence_id=commit.sequence_id, reason=99))  # type: ignore[arg-type]


def empty_messages(commit: Commit, count: int) -> Iterator[Said]:
    """A message with nothing in it."""
    yield DraftResponse()


def second_hello(commit: Commit, count: int) -> Iterator[Said]:
    """Introduces itself again."""
    yield HELLO


def half_a_message(commit: Commit, count: int) -> Iterator[Said]:
    """The first half of a message as if it were a whole one, then nothing more."""
    whole = prediction(
        commit.sequence_id, epoch=count, position=end_of(commit), token_ids=[5, 6, 7, 8]
    ).SerializeToString()
    yield whole[: len(whole) // 2]
    yield grpc.StatusCode.DATA_LOSS


def cancelled(commit: Commit, count: int) -> Iterator[Said]:
    """Ends the link as if the target had wanted it."""
    yield grpc.StatusCode.CANCELLED


def talkative(commit: Commit, count: int) -> Iterator[Said]:
    """Ends the link with a long and ever other word."""
    yield grpc.StatusCode.INTERNAL


_NONSENSE: tuple[Reply, ...] = (ids_out_of_range, wrong_positions, unknown_sequences, unasked_alternates)
