"""Drafts that are of no use, in a process of their own: `python -m benchmarks.bad_draft KIND`."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from grpc import aio

from outrider.v1.draft_pb2 import DraftHello, DraftRequest, DraftResponse, Predict

_HELLO = DraftResponse(hello=DraftHello(protocol_version=2, model="bad", context_length=32768))
_DELAY = 0.5  # seconds, of a slow answer
_FLOOD = 2000  # messages, to each commit


async def _silent(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[DraftResponse]:
    async for _ in requests:
        pass
    return
    yield


async def _slow(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[DraftResponse]:
    async for request in requests:
        await asyncio.sleep(_DELAY)
        for each in (request, *request.further):
            if each.WhichOneof("message") == "commit" and each.commit.wanted:
                yield _run(each, count=each.commit.wanted)


async def _flooding(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[DraftResponse]:
    async for request in requests:
        for each in (request, *request.further):
            if each.WhichOneof("message") == "commit":
                for _ in range(_FLOOD):
                    yield _run(each, count=4)


def _run(request: DraftRequest, *, count: int) -> DraftResponse:
    commit = request.commit
    position = commit.position + len(commit.token_ids)
    run = Predict(sequence_id=commit.sequence_id, epoch=position, position=position, token_ids=[1000] * count)
    return DraftResponse(predict=run)


BEHAVIOURS = {"silent": _silent, "slow": _slow, "flooding": _flooding}


@contextmanager
def running_bad_draft(kind: str) -> Iterator[str]:
    """Start one; yields its address."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.bad_draft", kind], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


async def _serve(kind: str) -> None:
    async def draft(requests: AsyncIterator[DraftRequest], context: Any) -> AsyncIterator[DraftResponse]:  # noqa: ANN401, ARG001
        yield _HELLO
        await anext(requests)  # the target's own hello
        async for message in BEHAVIOURS[kind](requests):
            yield message

    server = aio.server()
    handler = grpc.stream_stream_rpc_method_handler(
        draft, request_deserializer=DraftRequest.FromString, response_serializer=DraftResponse.SerializeToString
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("outrider.v1.DraftService", {"Draft": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
