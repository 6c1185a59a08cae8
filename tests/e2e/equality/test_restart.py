"""The server of the command line is killed and started again, and the client's loop never notices."""

import math
from collections.abc import Iterator

import pytest

from outrider import Client, Result
from tests.e2e.harness.command_line_target import CommandLineTarget
from tests.e2e.harness.draft_rig import PATIENCE_SECONDS, unpredicted
from tests.e2e.harness.models import folder
from tests.e2e.matrix.streams import prompt_of

OPTIONS = {"seed": 21, "temperature": 0.9, "max_tokens": 500, "ignore_eos": True, "top_candidates": 3}
PROMPT = prompt_of("qwen3", 5)


@pytest.fixture
def server() -> Iterator[CommandLineTarget]:
    server = CommandLineTarget("--model", str(folder("qwen3")), "--stream-capacity", "4")
    yield server
    server.stop()


def generate(client: Client, server: CommandLineTarget, kills_at: tuple[int, ...]) -> Result:
    """Read a stream, and kill the server each time that so many tokens have come."""
    planned = list(kills_at)
    received: list[int] = []
    with client.stream(PROMPT, timeout=PATIENCE_SECONDS, **OPTIONS) as stream:
        for chunk in stream:
            received.extend(chunk.token_ids)
            if planned and len(received) >= planned[0]:
                del planned[0]
                server.kill_and_start_again()
        assert tuple(received) == stream.result.token_ids
        return stream.result


def test_a_stream_outlives_the_servers_that_it_comes_from(server: CommandLineTarget):
    with Client(server.address, max_retries=200, max_backoff=0.2, connect_timeout=math.inf) as client:
        whole = generate(client, server, ())
        cut = generate(client, server, (1, 90, 180))
    assert whole.resumed == 0
    assert 1 <= cut.resumed <= 3  # a whole answer may be on its way already when its server is killed
    assert (cut.text, cut.token_ids, cut.finish_reason) == (whole.text, whole.token_ids, whole.finish_reason)
    assert [*map(unpredicted, cut.tokens)] == [*map(unpredicted, whole.tokens)]
