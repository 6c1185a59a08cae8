"""The clients that resume: the time that a caller gives, and the time after which a server wants to be asked again."""

import re
import time
from collections.abc import Iterator

import grpc
import pytest

from tests.clients.conftest import SECONDS, RunClient
from tests.clients.toolchains import RESUMING
from tests.harness.servers.full_servicer import FULL, MUCH_LATER, full_servicer
from tests.harness.servers.scripted_server import (
    DRAWN_SEED,
    Fault,
    Request,
    ScriptedServer,
    ScriptedServicer,
    answer,
    text_of,
)

PROMPT = "def quicksort"
WHOLE = text_of(answer(list(PROMPT.encode()), DRAWN_SEED), is_whole=True)
OUT_OF_TIME = re.compile("deadline|the time given to the call ran out", re.IGNORECASE)
TAKEN = 0.5  # seconds, by a call that breaks in the end
ROUNDING = 0.1  # by which gRPC may lengthen a time of a minute on the wire


@pytest.fixture(scope="module", params=RESUMING)
def language(request: pytest.FixtureRequest) -> str:
    """Those that resume."""
    return request.param


def test_the_time_given_is_for_all_tries_together(run_client: RunClient) -> None:
    left = []

    class SlowServicer(ScriptedServicer):
        def StreamGenerate(self, request: Request, context: grpc.ServicerContext) -> Iterator[object]:  # noqa: N802
            left.append(context.time_remaining())
            return super().StreamGenerate(request, context)

        def _strike(self, fault: Fault, context: grpc.ServicerContext) -> None:
            time.sleep(TAKEN)
            super()._strike(fault, context)

    with ScriptedServer(Fault(4), servicer_type=SlowServicer) as one, ScriptedServer(servicer_type=SlowServicer) as two:
        addresses = [f"--address={server.address}" for server in (one, two)]  # gRPC sends each the time that is left
        ended = run_client(*addresses, f"--timeout={SECONDS}", PROMPT)
    assert (ended.stdout, ended.returncode) == (WHOLE + "\n", 0), ended.stderr
    first, second = left
    assert first <= SECONDS + ROUNDING
    assert second <= SECONDS + ROUNDING - TAKEN


def test_a_timeout_ends_the_stream_with_the_text_so_far(run_client: RunClient) -> None:
    with ScriptedServer(Fault(4), Fault(0, how="hang")) as server:
        ended = run_client(f"--address={server.address}", "--timeout=0.5", PROMPT)
    assert WHOLE.startswith(ended.stdout.removesuffix("\n"))
    assert ended.returncode == 1
    assert OUT_OF_TIME.search(ended.stderr), ended.stderr


@pytest.mark.parametrize(("pushback", "options"), [(MUCH_LATER, ["--timeout=50"]), ("-1", []), ("soon", [])])
def test_a_full_server_is_not_waited_for_beyond_the_timeout(
    run_client: RunClient, pushback: str, options: list[str]
) -> None:
    with ScriptedServer(FULL, servicer_type=full_servicer(pushback)) as server:
        ended = run_client(f"--address={server.address}", *options, PROMPT)
        assert len(server.requests) == 1
    assert (ended.stdout, ended.returncode) == ("", 1)
    assert "full" in ended.stderr
