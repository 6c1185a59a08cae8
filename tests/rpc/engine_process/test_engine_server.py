"""The server in an engine's process, on the engine of a target in the test's own process."""

import socket

from services.engine.request import Request, StopConditions
from services.engine.sampling_params import SamplingParams
from services.target.engines.engine_server import EngineServer
from services.target.engines.vitals import Vitals, new_memory
from tests.harness.servers.server import RunningTarget


def request(number: int) -> Request:
    stops = StopConditions(max_tokens=4)
    return Request(request_id=str(number), prompt=(1, 2), received=(3,), sampling=SamplingParams(seed=1), stops=stops)


def test_a_request_cancelled_while_it_is_prepared_never_runs(target: RunningTarget) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = EngineServer(theirs, Vitals(new_memory()))
        server._engine = target.engine

        async def submit_and_cancel() -> None:
            gone, kept = (server.submit_slowly({number: request(number)}) for number in (1 << 40, 1 << 41))
            server.cancel(1 << 40)
            await gone
            await kept

        target.call(submit_and_cancel())
        known = target.on_engine_thread(lambda: {*target.engine._sequences})
        assert known & {1 << 40, 1 << 41} == {1 << 41}
        target.engine.cancel(1 << 41)
