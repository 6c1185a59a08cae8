"""The server of the command line is killed and started again, and the client's loop never notices."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from outrider import Client, Result
from tests.e2e.draft_rig import PATIENCE_SECONDS, unpredicted
from tests.e2e.models import ROOT, folder
from tests.e2e.streams import prompt_of
from tests.free_port import free_port

OPTIONS = {"seed": 21, "temperature": 0.9, "max_tokens": 500, "ignore_eos": True, "top_candidates": 3}
PROMPT = prompt_of("qwen3", 5)


class CommandLineTarget:
    """`python -m services.target` on one port, with nothing of the tests inside."""

    def __init__(self) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._process = self._spawn()

    def kill_and_start_again(self) -> None:
        self.stop()
        self._process = self._spawn()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _spawn(self) -> subprocess.Popen[bytes]:
        options = ["--model", str(folder("qwen3")), "--listen", self.address, "--stream-capacity", "4"]
        command = [sys.executable, "-m", "services.target", *options, "--kv-blocks", "32", "--threads", "1"]
        return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def server() -> Iterator[CommandLineTarget]:
    server = CommandLineTarget()
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
    with Client(server.address, max_retries=200, max_backoff=0.2) as client:
        whole = generate(client, server, ())
        cut = generate(client, server, (1, 90, 180))
    assert whole.resumed == 0
    assert 1 <= cut.resumed <= 3  # a whole answer may be on its way already when its server is killed
    assert (cut.text, cut.token_ids, cut.finish_reason) == (whole.text, whole.token_ids, whole.finish_reason)
    assert [*map(unpredicted, cut.tokens)] == [*map(unpredicted, whole.tokens)]
