"""deploy/envoy: what a client may rely on with the shipped proxy in front of the targets."""

import asyncio
import contextlib
import http.client
import json
import ssl
import struct

import pytest

from outrider import AsyncClient, Client, Result
from outrider.v1 import generation_pb2
from tests.deploy.envoy import Envoy
from tests.e2e.harness.draft_rig import GREEDY, PROMPT, SAMPLED, Service, assert_same, until

COUNT = 120
STREAM = "/outrider.v1.GenerationService/StreamGenerate"


def client(envoy: Envoy, **options: object) -> AsyncClient:
    return AsyncClient(envoy.address, credentials=envoy.credentials, **options)


def whose(targets: list[Service], result: Result) -> list[int]:
    """The replicas that have served a stream, or a part of it."""
    return [index for index, target in enumerate(targets) if result.started.request_id in target.log()]


async def test_the_shipped_configuration_is_valid(envoy: Envoy) -> None:
    envoy.validate()


@pytest.mark.parametrize("options", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
async def test_a_replica_that_is_killed_in_mid_stream_costs_no_byte(
    envoy: Envoy, targets: list[Service], options: dict[str, object]
) -> None:
    async with client(envoy) as outrider:
        alone = await outrider.generate(PROMPT, max_tokens=COUNT, **options)
        async with outrider.stream(PROMPT, max_tokens=COUNT, **options) as stream:
            num_tokens, killed = 0, None
            async for chunk in stream:
                num_tokens += len(chunk.token_ids)
                if num_tokens >= 20 and killed is None:
                    (killed,) = (target for target in targets if target.num_used_blocks)
                    killed.kill()
    assert killed is not None
    since = killed.log_size
    killed.start()
    assert stream.result.resumed == 1
    assert stream.result.token_ids == alone.token_ids
    assert (stream.result.text, stream.result.finish_reason) == (alone.text, alone.finish_reason)
    await killed.logs("serving target", since)


async def test_calls_do_not_notice_a_replica_that_is_not_there(envoy: Envoy, targets: list[Service]) -> None:
    """Without retries of the client's own."""
    away = targets[0]
    away.kill()
    try:
        async with client(envoy, max_retries=0) as outrider:
            results = [await outrider.generate(PROMPT, max_tokens=4, **GREEDY) for _ in range(12)]
    finally:
        since = away.log_size
        away.start()
    for result in results[1:]:
        assert_same(result, results[0])
    await away.logs("serving target", since)


async def test_prompts_that_begin_alike_find_the_same_replica(envoy: Envoy, targets: list[Service]) -> None:
    beginnings = [f"# Chapter {number}\n" + "All of it begins in the same way. " * 40 for number in range(12)]
    async with client(envoy, route_by_prefix=True) as outrider:
        used = set()
        for beginning in beginnings:
            served = [await outrider.generate(beginning + end, max_tokens=1, seed=1) for end in ("one", "two", "three")]
            (replica,) = {tuple(whose(targets, result)) for result in served}
            used.add(replica)
            assert [result.usage.cached_tokens > 0 for result in served] == [False, True, True]
    assert used == {(0,), (1,)}


async def test_a_certificate_is_replaced_without_a_restart(envoy: Envoy) -> None:
    async with client(envoy) as outrider:
        async with outrider.stream(PROMPT, max_tokens=COUNT, **GREEDY) as stream:
            await anext(aiter(stream))
        assert "first" in await asyncio.to_thread(subject, envoy)
        envoy.show_certificate("second")
        await until(lambda: "second" in subject(envoy))
        assert await outrider.generate(PROMPT, max_tokens=4, **GREEDY)


async def test_a_path_that_is_not_utf8_harms_no_target(envoy: Envoy, targets: list[Service]) -> None:
    host, _, port = envoy.address.rpartition(":")
    context = ssl.create_default_context(cafile=str(envoy.authority.certificate))
    for method in (b"\xf5", b"%F5", b"Other"):
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        path = STREAM.rpartition("/")[0].encode() + b"/" + method
        writer.write(b"POST " + path + b" HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/grpc\r\n")
        writer.write(b"content-length: 0\r\nconnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 ")
        writer.close()
    for target in targets:
        assert target.is_running
        assert "UnicodeDecodeError" not in target.log()
    async with client(envoy, max_retries=0) as outrider:
        assert await outrider.generate(PROMPT, max_tokens=4, **GREEDY)


def subject(envoy: Envoy) -> str:
    """The subject of the certificate that it shows to a new connection."""
    with contextlib.closing(connect(envoy)) as connection:
        connection.connect()
        assert isinstance(connection.sock, ssl.SSLSocket)
        return str(connection.sock.getpeercert())


def connect(envoy: Envoy) -> http.client.HTTPSConnection:
    """As a browser does, by HTTP/1.1."""
    context = ssl.create_default_context(cafile=str(envoy.authority.certificate))
    host, _, port = envoy.address.rpartition(":")
    return http.client.HTTPSConnection(host, int(port), context=context, timeout=60)


def post(envoy: Envoy, path: str, body: bytes, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    with contextlib.closing(connect(envoy)) as connection:
        connection.request("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        with connection.getresponse() as response:
            return response, response.read()


def frames(body: bytes) -> list[tuple[int, bytes]]:
    """Flags and message of each."""
    found = []
    while body:
        flags, size = struct.unpack(">BI", body[:5])
        found.append((flags, body[5 : 5 + size]))
        body = body[5 + size :]
    return found


def stream_body() -> bytes:
    request = generation_pb2.StreamGenerateRequest()
    request.prompt.text = PROMPT
    request.sampling.seed, request.sampling.temperature = 7, 0.0
    request.stop.max_tokens, request.stop.ignore_eos = 20, True
    message = request.SerializeToString()
    return struct.pack(">BI", 0, len(message)) + message


def text_of(messages: list[bytes]) -> str:
    events = [generation_pb2.StreamGenerateResponse.FromString(message) for message in messages]
    return "".join(event.chunk.text for event in events) + events[-1].finished.text


@pytest.fixture
def expected(envoy: Envoy) -> str:
    """The answer to the same request by gRPC."""
    with Client(envoy.address, credentials=envoy.credentials) as outrider:
        return outrider.generate(PROMPT, seed=7, temperature=0.0, max_tokens=20, ignore_eos=True).text


async def test_a_browser_streams_by_grpc_web(envoy: Envoy, expected: str) -> None:
    response, body = await asyncio.to_thread(
        post,
        envoy,
        STREAM,
        stream_body(),
        content_type="application/grpc-web+proto",
        origin="https://example.com",
    )
    assert (response.status, response.getheader("content-type")) == (200, "application/grpc-web+proto")
    assert response.getheader("access-control-allow-origin") == "https://example.com"
    *messages, (flags, trailers) = frames(body)
    assert text_of([message for _, message in messages]) == expected
    assert flags == 0x80
    assert b"grpc-status:0" in trailers


async def test_a_browser_streams_by_connect(envoy: Envoy, expected: str) -> None:
    response, body = await asyncio.to_thread(
        post, envoy, STREAM, stream_body(), content_type="application/connect+proto", connect_protocol_version="1"
    )
    assert (response.status, response.getheader("content-type")) == (200, "application/connect+proto")
    *messages, (flags, end) = frames(body)
    assert text_of([message for _, message in messages]) == expected
    assert flags == 2
    assert "error" not in json.loads(end)


async def test_connect_has_an_unary_call_too(envoy: Envoy) -> None:
    path = "/outrider.v1.GenerationService/GetModelInfo"
    response, body = await asyncio.to_thread(
        post, envoy, path, b"", content_type="application/proto", connect_protocol_version="1"
    )
    assert response.status == 200
    assert generation_pb2.GetModelInfoResponse.FromString(body).fingerprint
