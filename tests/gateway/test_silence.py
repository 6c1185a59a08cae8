"""A stream is never silent: its headers come with the admission, and pings while nothing else does."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import httpx2
import pytest

from outrider import AsyncClient
from tests.gateway.harness.events import read_events
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.servers.server import RunningTarget

ASKED = {"max_tokens": 8, "seed": 5, "stream": True}
TALK = {"messages": [{"role": "user", "content": "Who?"}]}
COMMENT = [": this stream is alive", ""]
PING = ["event: ping", 'data: {"type": "ping"}', ""]
DOORS = {
    "/v1/completions": ({"prompt": "Who?"}, COMMENT),
    "/v1/chat/completions": (TALK, COMMENT),
    "/v1/responses": ({"input": "Who?", "max_output_tokens": 8, "max_tokens": None}, COMMENT),
    "/v1/messages": (TALK, PING),
    "/v1/generate": ({"prompt": "Who?"}, COMMENT),
}


@pytest.fixture(scope="module")
def restless(talker: RunningTarget) -> Iterator[RunningGateway]:
    """A gateway whose streams are hardly ever silent."""
    with RunningGateway(talker.address, ping_seconds=0.05) as running:
        yield running


def body_of(path: str) -> dict[str, object]:
    return {name: value for name, value in {**ASKED, **DOORS[path][0]}.items() if value is not None}


def text_of(lines: list[str]) -> str:
    """The text of a streamed message."""
    deltas = (event.data["delta"] for event in read_events([*lines, ""]) if event.name == "content_block_delta")
    return "".join(delta["text"] for delta in deltas)


@pytest.mark.parametrize("path", DOORS)
def test_headers_and_pings_come_before_the_first_step(path: str, restless: RunningGateway, talker: RunningTarget):
    said = DOORS[path][1]
    with talker.held(), httpx2.Client(timeout=60) as client:
        with client.stream("POST", f"{restless.url}{path}", json=body_of(path)) as answer:
            assert answer.status_code == 200
            lines = answer.iter_lines()
            silent = [next(lines) for _ in range(3 * len(said))]
        assert silent == 3 * said
    talker.assert_all_free()


def test_pings_change_no_text(restless: RunningGateway, talker: RunningTarget):
    path = "/v1/messages"
    expected = text_of(restless.post(path, body_of(path)).text.splitlines())
    with ExitStack() as open_stream:
        with talker.held():
            client = open_stream.enter_context(httpx2.Client(timeout=60))
            answer = open_stream.enter_context(client.stream("POST", f"{restless.url}{path}", json=body_of(path)))
            lines = answer.iter_lines()
            before = [next(lines) for _ in PING]
        rest = list(lines)
    assert before == PING
    assert text_of(rest) == expected != ""


def test_a_refusal_has_its_status(restless: RunningGateway):
    assert restless.post("/v1/completions", {**body_of("/v1/completions"), "max_tokens": -5}).status_code == 400
    assert restless.post("/v1/completions", {**body_of("/v1/completions"), "model": "other"}).status_code == 404


async def test_a_client_learns_that_its_request_is_admitted(talker: RunningTarget):
    async with AsyncClient(talker.address) as client:
        with talker.held():
            stream = client.stream("Who?", max_tokens=3)
            first = asyncio.ensure_future(anext(aiter(stream)))
            await stream.admitted()
            assert not first.done()
        assert (await first).token_ids
        stream.cancel()
    talker.assert_all_free()
