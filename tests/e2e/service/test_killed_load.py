"""A server is killed while it loads a model on demand: a waiting client gets the same answer from the next server."""

import math
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from outrider import Client, ModelState, OutriderError, Result
from tests.e2e.harness.command_line_target import CommandLineTarget
from tests.e2e.harness.draft_rig import PATIENCE_SECONDS
from tests.e2e.harness.models import folder
from tests.harness.servers.server import wait_until

OPTIONS = {"seed": 21, "temperature": 0.9, "max_tokens": 40, "ignore_eos": True, "model": "other"}


@pytest.fixture
def server() -> Iterator[CommandLineTarget]:
    """A server of two models, the second loaded on demand."""
    models = ("--model", f"one={folder('qwen3')}", "--model", f"other={folder('llama')}")
    server = CommandLineTarget(*models, "--load-on-demand")
    yield server
    server.stop()


def state(client: Client) -> ModelState:
    try:
        return client.list_models(timeout=1)[1].state
    except OutriderError:  # it has not started yet
        return ModelState.UNKNOWN


def ask(client: Client) -> Result:
    return client.generate("def f(x):", timeout=PATIENCE_SECONDS, **OPTIONS)


def kill_in_mid_load(client: Client, server: CommandLineTarget, answer: "Future[Result]") -> bool:
    """Whether that came about before the answer did."""
    while not answer.done():
        if state(client) is ModelState.LOADING:
            server.stop()
            return True
    return False


def test_a_waiting_client_gets_the_same_answer_after_a_kill(server: CommandLineTarget) -> None:
    with (
        ThreadPoolExecutor(1) as threads,
        Client(server.address, connect_timeout=math.inf) as client,
        Client(server.address) as looking,
    ):
        expected = ask(client)
        for _ in range(50):  # a load may be over before it was seen
            server.kill_and_start_again()
            wait_until(lambda: state(looking) is ModelState.UNLOADED)
            answer = threads.submit(ask, client)
            if kill_in_mid_load(looking, server, answer):
                break
        server.kill_and_start_again()
        again = answer.result()
        assert (again.token_ids, again.text, again.finish_reason) == (
            expected.token_ids,
            expected.text,
            expected.finish_reason,
        )
