"""ScriptedDraft: a server of the draft protocol that sends what a given behaviour yields, valid or not."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Self

import grpc
from grpc import aio

from outrider.v1.draft_pb2 import Commit, DraftHello, DraftRequest, DraftResponse, Predict
from services.draft_protocol.protocol import PROTOCOL_VERSION

Said = DraftResponse | bytes | grpc.StatusCode  # a message, bytes that are no valid message, or the link's final status
Behaviour = Callable[[AsyncIterator[DraftRequest]], AsyncIterator[Said]]
Reply = Callable[[Commit, int], Iterable[Said]]

HELLO = DraftResponse(hello=DraftHello(protocol_version=PROTOCOL_VERSION, model="scripted", context_length=2048))
LARGEST = 2**32 - 1
"""The largest of the protocol's 32-bit numbers."""


class ScriptedDraft:
    """Runs on the event loop that enters it; counts the links that were opened and the messages that it sent."""

    def __init__(self, address: str, behaviour: Behaviour) -> None:
        """Listen at the address; port 0 chooses a free port."""
        self.num_links = self.num_sent = 0
        self._behaviour = behaviour
        self._server = aio.server()
        handler = grpc.stream_stream_rpc_method_handler(
            self._draft, request_deserializer=DraftRequest.FromString, response_serializer=_serialize
        )
        service = grpc.method_handlers_generic_handler("outrider.v1.DraftService", {"Draft": handler})
        self._server.add_generic_rpc_handlers((service,))
        self.port = self._server.add_insecure_port(address)

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.stop(grace=None)

    async def _draft(
        self, requests: AsyncIterator[DraftRequest], context: aio.ServicerContext[DraftRequest, Said]
    ) -> AsyncIterator[Said]:
        self.num_links += 1
        async for message in self._behaviour(requests):
            self.num_sent += 1
            if isinstance(message, grpc.StatusCode):
                await context.abort(message, f"garbage {self.num_links}\n" * 50)
            yield message


async def commits(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Commit]:
    """Yield all commits that the target sends, in order."""
    async for request in requests:
        for commit in commits_in(request):
            yield commit


def commits_in(request: DraftRequest) -> list[Commit]:
    """Return the commits of one message, including the further messages that it carries."""
    together = (request, *request.further)
    return [each.commit for each in together if each.WhichOneof("message") == "commit"]


def replying(reply: Reply) -> Behaviour:
    """Return a behaviour that says hello, then answers each commit; `reply` is given the commit and its number."""

    async def behaviour(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Said]:
        yield HELLO
        counter = itertools.count(1)
        async for commit in commits(requests):
            for message in reply(commit, next(counter)):
                yield message

    return behaviour


def prediction(sequence_id: int, *, epoch: int, position: int, token_ids: list[int]) -> DraftResponse:
    """Return a message that predicts a run of tokens from the position on."""
    position = min(position, LARGEST)
    run = Predict(sequence_id=sequence_id, epoch=epoch % 2**32, position=position, token_ids=token_ids)
    return DraftResponse(predict=run)


def end_of(commit: Commit) -> int:
    """Return the position after the last committed token."""
    return commit.position + len(commit.token_ids)


def _serialize(message: DraftResponse | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()
