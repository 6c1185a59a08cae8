"""What happens to the services of a ChaosStand, one thing after another."""

import asyncio
import os
import random
import resource
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tests.chaos.stand import ChaosStand
from tests.e2e.harness.draft_rig import Service, until

_PAUSE_SECONDS = (0.2, 1.5)  # between two faults
_DOWN_SECONDS, _STOPPED_SECONDS, _STARVED_SECONDS = (0.0, 1.0), (0.1, 3.0), (0.5, 2.0)
_STEPPED_SECONDS = (1.5, 4.0)
_STEPS = (2, 3600, 30 * 86400)  # seconds
_SPARE_BYTES = 1 << 20  # of memory that a starved process gets further


class Faults:
    """Draws the next fault at random; `counts` has those that have happened. All pauses are multiplied by `pace`."""

    def __init__(self, stand: ChaosStand, rng: random.Random, pace: float) -> None:
        self._stand, self._rng, self._pace = stand, rng, pace
        self.counts: Counter[str] = Counter()
        self._num_certificates = 0
        self._starved: set[Service] = set()
        self._kinds: list[Callable[[], Awaitable[None]]] = [
            self._kill_target,
            self._kill_front,
            self._kill_engine,
            self._kill_draft,
            self._stop,
            self._reset,
            self._stall,
            self._starve_of_memory,
            self._fill_disk,
            self._step_clock,
        ]
        if stand.envoy is not None:
            self._kinds.append(self._replace_certificate)

    async def run(self, is_enough: Callable[[], bool]) -> None:
        """Go on until it is, each fault once at least, and leave everything in order."""
        order = self._rng.sample(self._kinds, len(self._kinds))
        while order or not is_enough():
            fault = order.pop() if order else self._rng.choice(self._kinds)
            await self._wait(_PAUSE_SECONDS)
            self.start_again()
            await fault()
            self.counts[fault.__name__.strip("_").replace("_", " ")] += 1

    def start_again(self) -> None:
        """Start a service that died for lack of a resource, as an operator would, perhaps a while later."""
        for service in self._starved:
            if not service.is_running:
                service.kill()
                service.start()

    async def _kill_target(self) -> None:
        await self._restart(self._rng.choice(self._stand.targets))

    async def _kill_front(self) -> None:
        """The service starts another one."""
        fronts = self._rng.choice(self._stand.targets).fronts
        if fronts:  # not of a target that is just starting
            _kill(self._rng.choice(fronts))

    async def _kill_engine(self) -> None:
        """Its service ends by itself."""
        target = self._rng.choice(self._stand.targets)
        if not (engines := target.engines):
            return
        _kill(*engines)
        await until(lambda: not target.is_running)
        await self._restart(target)

    async def _restart(self, target: Service) -> None:
        """One at a time, until it serves again; the rest of what happens may hit the other one."""
        target.kill()
        await self._wait(_DOWN_SECONDS)
        since = target.log_size
        target.start()
        await target.logs("serving target", since)

    async def _kill_draft(self) -> None:
        draft = self._rng.choice(self._stand.drafts)
        draft.kill()
        await self._wait(_DOWN_SECONDS)
        draft.start()

    async def _stop(self) -> None:
        service = self._rng.choice(self._stand.services)
        service.pause()
        await self._wait(_STOPPED_SECONDS)
        service.resume()

    async def _reset(self) -> None:
        self._rng.choice(self._stand.proxies).cut()

    async def _stall(self) -> None:
        proxy = self._rng.choice(self._stand.proxies)
        proxy.stall()
        await self._wait(_STOPPED_SECONDS)
        proxy.flow()

    async def _starve_of_memory(self) -> None:
        """A draft that gets no more memory; a target is killed by the system for it, which is a fault above."""
        draft = self._rng.choice(self._stand.drafts)
        await self._limit(draft, resource.RLIMIT_AS, draft.virtual_bytes + _SPARE_BYTES)

    async def _fill_disk(self) -> None:
        """Nothing can be written to any file, such as the log."""
        await self._limit(self._rng.choice(self._stand.services), resource.RLIMIT_FSIZE, 0)

    async def _step_clock(self) -> None:
        """The wall clock of one service jumps, and later jumps back."""
        clock = self._stand.clocks[self._rng.choice(self._stand.services)]
        clock.step(self._rng.choice((-1, 1)) * self._rng.choice(_STEPS))
        await self._wait(_STEPPED_SECONDS)
        clock.step(0)

    async def _replace_certificate(self) -> None:
        self._num_certificates += 1
        assert self._stand.envoy is not None
        await asyncio.to_thread(self._stand.envoy.show_certificate, f"number {self._num_certificates}")

    async def _limit(self, service: Service, what: int, limit: int) -> None:
        self._starved.add(service)
        before = resource.prlimit(service.pid, what, (limit, resource.RLIM_INFINITY))
        await self._wait(_STARVED_SECONDS)
        if service.is_running:
            resource.prlimit(service.pid, what, before)

    async def _wait(self, seconds: tuple[float, float]) -> None:
        await asyncio.sleep(self._pace * self._rng.uniform(*seconds))


def _kill(*process_ids: int) -> None:
    for process_id in process_ids:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(process_id, signal.SIGKILL)
