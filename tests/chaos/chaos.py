"""Chaos: callers want whole answers from services with constant faults."""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace

import grpc

from outrider import AsyncClient, InvalidArgument, OutriderError, ResourceExhausted, Result, ServerLost
from tests.chaos.faults import Faults
from tests.chaos.stand import ChaosStand
from tests.e2e.harness.draft_rig import until
from tests.e2e.soak.soak_request import REFUSED, Answer, SoakRequest

_PATIENCE_SECONDS = 300.0  # for one answer
_MORE_SECONDS = 120.0  # than were asked for, until there is evidence: a busy machine takes its time
_LONGEST_ANSWER = 300  # tokens
_OUT_OF_TIME = "grammar.lark: cannot be followed: compiling it takes more than"
_SHARE_OF_NEW_CONNECTIONS = 0.2


@dataclass(slots=True)
class Tally:
    """The answers of the callers, and the faults that have happened."""

    results: list[Result] = field(default_factory=list)
    num_refusals: int = 0
    num_asked_again: int = 0  # by the caller, where the server went that was at work on it
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def missing_evidence(self) -> list[str]:
        """What must have happened for the rest to mean something."""
        figures = [result.speculation for result in self.results]
        happened = {
            "answers": len(self.results),
            "answers that were taken up again": sum(result.resumed for result in self.results),
            "accepted predictions": sum(each.accepted for each in figures),
            "rejected predictions": sum(each.predicted - each.accepted for each in figures),
        }
        return [f"there were no {name}" for name, count in happened.items() if count == 0]


class Chaos:
    """One run; in its `tally`, any problem is a failure."""

    def __init__(
        self, stand: ChaosStand, *, seconds: float, seed: int, num_callers: int = 8, pace: float = 1.0
    ) -> None:
        """`pace` multiplies how long each fault lasts."""
        self._stand = stand
        self._pace = pace
        self._num_callers = num_callers
        self._seconds = seconds
        self._rng = random.Random(seed)
        self._is_over = False
        self.tally = Tally()

    async def run(self) -> None:
        """Call and disturb until the time is over and there is evidence, then see that nothing is left."""
        faults = Faults(self._stand, random.Random(self._rng.random()), self._pace)
        self.tally.faults = faults.counts
        callers = [self._call(random.Random(self._rng.random())) for _ in range(self._num_callers)]
        await asyncio.gather(self._disturb(faults), *callers)
        await self._check_free(faults)
        self.tally.problems += self.tally.missing_evidence()

    async def _check_free(self, faults: Faults) -> None:
        services = self._stand.services

        def are_free() -> bool:
            faults.start_again()
            with suppress(grpc.RpcError):  # one that has just been started again
                return not any(service.num_used_blocks for service in services)
            return False

        with suppress(TimeoutError):
            await until(are_free)
        for service in services:
            if not service.is_running:
                self._complain(f"{service.name} has ended: {service.log()[-2000:]}")
            elif used := service.num_used_blocks:
                self._complain(f"{service.name} still uses {used} KV blocks")

    async def _disturb(self, faults: Faults) -> None:
        clock = asyncio.get_running_loop().time
        end = clock() + self._seconds

        def is_enough() -> bool:
            return clock() >= end and (not self.tally.missing_evidence() or clock() >= end + _MORE_SECONDS)

        try:
            await faults.run(is_enough)
        finally:
            self._is_over = True

    async def _call(self, rng: random.Random) -> None:
        async with AsyncClient(self._stand.plain.address) as plain:
            client = self._stand.connect()
            while not self._is_over:
                if rng.random() < _SHARE_OF_NEW_CONNECTIONS:
                    await client.close()
                    client = self._stand.connect()
                await self._ask(_draw(rng), client, plain)
            await client.close()

    async def _ask(self, request: SoakRequest, client: AsyncClient, plain: AsyncClient) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                answer = await self._send(request, client)
                if answer.end == REFUSED:
                    self.tally.num_refusals += 1
                    return
            difference = answer.difference(await request.reference(plain))
        except (OutriderError, TimeoutError) as error:
            if _is_refusal_for_load(error):
                self.tally.num_refusals += 1
            else:
                self._complain(f"{type(error).__name__} {error}: {request}")
            return
        if difference or answer.result is None:
            self._complain(f"{difference or answer.end}: {request}")
        else:
            self.tally.results.append(answer.result)

    async def _send(self, request: SoakRequest, client: AsyncClient) -> Answer:
        """The settings of a caller whose requests end no server."""
        while True:
            try:
                return await request.send(client)
            except ServerLost:
                self.tally.num_asked_again += 1

    def _complain(self, problem: str) -> None:
        self.tally.problems.append(problem)
        print(f"chaos: {problem}", flush=True)


def _is_refusal_for_load(error: Exception) -> bool:
    """That there is no place, or that on a busy machine a grammar was not compiled within its time."""
    return isinstance(error, ResourceExhausted) or (isinstance(error, InvalidArgument) and _OUT_OF_TIME in str(error))


def _draw(rng: random.Random) -> SoakRequest:
    """Each caller asks for something valid, reads the answer at once and waits for its end."""
    request = SoakRequest.draw(rng)
    options = {**request.options, "max_tokens": min(request.options["max_tokens"], _LONGEST_ANSWER)}
    return replace(request, options=options, cancels_at=None, deadline=None, pause=0.0, is_bad=False)
