"""A crowd: `python -m tests.load.crowd ADDRESS SETTING` runs many callers at once, and prints what became of them.

Each has a connection of its own, and retries after the server's delay. One of them is greedy: it has many requests.
"""

import asyncio
import json
import os
import random
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from grpc import StatusCode, aio

from outrider.v1 import generation_pb2

METHOD = "/outrider.v1.GenerationService/StreamGenerate"
_ALONE = [("grpc.use_local_subchannel_pool", 1)]


@dataclass(frozen=True)
class Setting:
    """The number of callers, their requests, and the seconds within which all start."""

    num_callers: int = 1999
    num_greedy: int = 1000
    num_tokens: int = 64
    arrival_seconds: float = 2.0
    most_seconds: float = 100.0


@dataclass
class Outcome:
    """Seconds from a call's first try to its first token, by who called; and what else happened."""

    modest: list[float] = field(default_factory=list)
    greedy: list[float] = field(default_factory=list)
    greedy_before: int = 0  # of the greedy one, begun before the last of the others was
    num_refused: int = 0
    told: list[float] = field(default_factory=list)  # delays of refusals, in seconds
    refusals: list[float] = field(default_factory=list)  # and after how many they were
    num_ended: int = 0
    faults: list[str] = field(default_factory=list)
    first_at: float = 0.0
    last_at: float = 0.0


def small_request(num_tokens: int) -> generation_pb2.StreamGenerateRequest:
    """A short prompt, and so many tokens of an answer."""
    request = generation_pb2.StreamGenerateRequest()
    request.prompt.text = "import os\nimport sys\n\ndef main(argv):\n"
    request.stop.max_tokens, request.stop.ignore_eos = num_tokens, True
    return request


class Crowd:
    """The callers, on one event loop."""

    def __init__(self, address: str, setting: Setting) -> None:
        self._address, self._setting = address, setting
        self._request = small_request(setting.num_tokens).SerializeToString()
        self.outcome = Outcome()

    async def run(self) -> None:
        """Until all have been served, or the time is over."""
        setting = self._setting
        self.outcome.first_at = time.monotonic()
        self._end = self.outcome.first_at + setting.most_seconds
        callers = [self._caller(1, self.outcome.modest) for _ in range(setting.num_callers)]
        await asyncio.gather(self._caller(setting.num_greedy, self.outcome.greedy), *callers)

    async def _caller(self, num_requests: int, waits: list[float]) -> None:
        async with aio.insecure_channel(self._address, _ALONE) as channel:
            call: aio.UnaryStreamMultiCallable[Any, Any] = channel.unary_stream(METHOD)
            await asyncio.gather(*(self._ask(call, waits) for _ in range(num_requests)))

    async def _ask(self, call: "aio.UnaryStreamMultiCallable[Any, Any]", waits: list[float]) -> None:
        await asyncio.sleep(random.uniform(0, self._setting.arrival_seconds))
        came = time.monotonic()
        while time.monotonic() < self._end:
            asked = time.monotonic()
            try:
                await self._read(call(self._request), came, waits)
                return
            except aio.AioRpcError as error:
                if error.code() is not StatusCode.RESOURCE_EXHAUSTED:
                    self.outcome.faults.append(f"{error.code().name}: {error.details()}"[:200])
                    return
                self.outcome.num_refused += 1
                self.outcome.refusals.append(time.monotonic() - asked)
                trailers = dict(error.trailing_metadata() or ())
                self.outcome.told.append(int(trailers["grpc-retry-pushback-ms"]) / 1000)
            await asyncio.sleep(self.outcome.told[-1])

    async def _read(self, call: "aio.UnaryStreamCall[Any, Any]", came: float, waits: list[float]) -> None:
        has_begun = False
        async for data in call:
            if not has_begun and generation_pb2.StreamGenerateResponse.FromString(data).HasField("chunk"):
                has_begun = True
                self.outcome.last_at = time.monotonic()
                waits.append(self.outcome.last_at - came)
                if waits is self.outcome.modest:
                    self.outcome.greedy_before = len(self.outcome.greedy)
        self.outcome.num_ended += 1


if __name__ == "__main__":
    os.nice(10)  # the watcher runs first
    crowd = Crowd(sys.argv[1], Setting(**json.loads(sys.argv[2])))
    asyncio.run(crowd.run())
    print(json.dumps(asdict(crowd.outcome)))
