"""ErrorInterceptor: an error in a handler is sent to the caller, and a cancelled call is no error."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc import aio

from services.service.errors import UnavailableError
from services.service.interceptors import ErrorInterceptor

_MORE_THAN_A_WINDOW = 1 << 20  # bytes: the message is under way until the reader takes it


class Handlers:
    """One handler for each shape of a call."""

    def __init__(self) -> None:
        self.num_begun, self.num_writes = 0, 0
        self.ended: asyncio.Queue[None] = asyncio.Queue()

    async def write_on(self, request: Any, context: aio.ServicerContext[bytes, bytes]) -> None:
        self.num_begun += 1
        try:
            while True:
                self.num_writes += 1
                await context.write(bytes(_MORE_THAN_A_WINDOW))
        finally:
            self.ended.put_nowait(None)

    async def fail(self, request: Any, context: aio.ServicerContext[bytes, bytes]) -> bytes:
        raise UnavailableError("not now")

    async def break_down(self, request: Any, context: aio.ServicerContext[bytes, bytes]) -> bytes:
        raise ArithmeticError("on purpose")

    async def yield_twice(self, request: Any, context: aio.ServicerContext[bytes, bytes]) -> AsyncIterator[bytes]:
        yield b"1"
        yield b"2"


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
async def channel(handlers: Handlers) -> AsyncIterator[aio.Channel]:
    """To a server with those handlers, each as a unary call, a stream down, and a stream both ways."""
    server = aio.server(interceptors=[ErrorInterceptor()])
    shapes = {
        "Unary": grpc.unary_unary_rpc_method_handler,
        "Down": grpc.unary_stream_rpc_method_handler,
        "Both": grpc.stream_stream_rpc_method_handler,
    }
    methods = {
        f"{name}{shape}": make(getattr(handlers, name))
        for name in ("write_on", "fail", "break_down", "yield_twice")
        for shape, make in shapes.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened
    await server.stop(None)


def begin(channel: aio.Channel, method: str) -> Any:
    """A call of one of the handlers."""
    if method.endswith("Unary"):
        return channel.unary_unary(f"/test.Test/{method}")(b"")
    if method.endswith("Down"):
        return channel.unary_stream(f"/test.Test/{method}")(b"")
    return channel.stream_stream(f"/test.Test/{method}")()


@pytest.mark.parametrize("shape", ["Down", "Both"])
async def test_a_caller_that_leaves_during_a_message_is_no_error(
    channel: aio.Channel, handlers: Handlers, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(40):  # which of the two is noticed first, that he left or that the message failed, is up to chance
        call = begin(channel, f"write_on{shape}")
        await call.read()
        call.cancel()
    for _ in range(40):
        await handlers.ended.get()
    assert handlers.num_begun == 40 < handlers.num_writes
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("shape", ["Unary", "Down", "Both"])
async def test_a_failure_is_sent_to_the_caller(channel: aio.Channel, shape: str) -> None:
    call = begin(channel, f"fail{shape}")
    assert (await call.code(), await call.details()) == (grpc.StatusCode.UNAVAILABLE, "not now")


@pytest.mark.parametrize("shape", ["Unary", "Down", "Both"])
async def test_an_internal_error_is_sent_without_details_and_logged(
    channel: aio.Channel, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    call = begin(channel, f"break_down{shape}")
    assert await call.code() is grpc.StatusCode.INTERNAL
    assert await call.details() == "the server failed at this call; its log says why"
    assert f"/test.Test/break_down{shape} failed" in caplog.text
    assert "ArithmeticError: on purpose" in caplog.text


@pytest.mark.parametrize("shape", ["Down", "Both"])
async def test_a_handler_that_yields_passes(channel: aio.Channel, shape: str) -> None:
    assert [message async for message in begin(channel, f"yield_twice{shape}")] == [b"1", b"2"]
