"""Readers that stall are sent the status that ends their streams when they read again; the log has no traceback."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from google.rpc import error_details_pb2
from grpc import aio

from services.service.errors import ReaderStalledError
from services.service.interceptors import ErrorInterceptor
from services.target.api.stream_writer import Context, StreamWriter
from tests.harness.network.cutting_proxy import CuttingProxy
from tests.rpc.harness.requests import detail

LARGE = BytesValue(value=bytes(1 << 20))
NUM_CALLS = 30  # on one connection, which takes the first message of some of them and none of the others
Call = aio.UnaryStreamCall[bytes, bytes]


class LargeAnswers(grpc.GenericRpcHandler):
    """Streams of large messages."""

    def __init__(self) -> None:
        self._num_stalled = 0
        self.all_stalled = asyncio.Event()

    def service(self, _: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_stream_rpc_method_handler(self._answer, None, BytesValue.SerializeToString)

    async def _answer(self, _: bytes, context: Context) -> None:
        async with StreamWriter(context, 0.2) as writer:
            try:
                for _ in range(100):
                    await writer.write(LARGE)
            except ReaderStalledError:
                self._num_stalled += 1
                if self._num_stalled == NUM_CALLS:
                    self.all_stalled.set()
                raise


@asynccontextmanager
async def stalled_calls() -> AsyncIterator[tuple[CuttingProxy, list[Call]]]:
    """Calls whose readers have stalled, and the proxy over which the rest comes once it flows."""
    answers, server = LargeAnswers(), aio.server(interceptors=[ErrorInterceptor()])
    server.add_generic_rpc_handlers([answers])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    with CuttingProxy(port) as proxy:
        async with aio.insecure_channel(proxy.address) as channel:
            await channel.channel_ready()
            proxy.flows.clear()
            calls: list[Call] = [channel.unary_stream("/any/Method")(b"", timeout=60) for _ in range(NUM_CALLS)]
            await answers.all_stalled.wait()
            yield proxy, calls
    await server.stop(None)


async def test_the_status_follows_the_message_that_was_stuck(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with stalled_calls() as (proxy, calls):
            proxy.flows.set()
            for call in calls:
                with pytest.raises(aio.AioRpcError) as failure:
                    assert [message async for message in call]
                assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
                assert detail(failure.value, error_details_pb2.ErrorInfo).reason == "READER_STALLED"
    assert not caplog.records


async def test_readers_that_leave_meanwhile_are_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with stalled_calls() as (proxy, calls):
            for call in calls:
                call.cancel()
            proxy.flows.set()
    assert not caplog.records


async def test_a_message_lost_after_its_call_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    context = LosingContext()

    async def answer() -> None:
        async with StreamWriter(context, 60) as writer:  # type: ignore[arg-type]
            await writer.write(LARGE)

    call = asyncio.create_task(answer())
    await context.writes.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    context.is_lost.set()
    await context.has_failed.wait()
    await asyncio.sleep(0)
    del call
    gc.collect()
    assert not caplog.records


class LosingContext:
    """Stands for a call whose connection is lost while its first message is written."""

    def __init__(self) -> None:
        self.writes, self.is_lost, self.has_failed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def write(self, _: object) -> None:
        self.writes.set()
        await self.is_lost.wait()
        self.has_failed.set()
        raise RuntimeError("the connection is lost")
