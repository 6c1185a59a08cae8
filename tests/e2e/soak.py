"""The soak: `python -m tests.e2e.soak --minutes 10` streams random requests while the draft is killed over and over.

Every answer is compared with that of a second target, which never had a draft. In the last part of the time the draft
is left alone, so that its memory can be watched too. Where a slow machine has not come far enough by then for the rest
to mean anything, it goes on for a while.
"""

import argparse
import asyncio
import math
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from outrider import AsyncClient, OutriderError
from outrider.types import Speculation
from tests.e2e.draft_rig import DraftedTarget, Service, until
from tests.e2e.memory_curve import MemoryCurve
from tests.e2e.models import DEMO_DRAFT, DEMO_TARGET
from tests.e2e.server_process import free_port
from tests.e2e.soak_request import Answer, SoakRequest

NUM_STREAMS = 8
_NUM_CLIENTS = 16  # so many that all places are taken while others have their answers compared
_LIFE_SECONDS = (1.0, 6.0)  # of a draft, from its start to its end
_DOWN_SECONDS = (0.0, 0.5)
_SHARE_WITH_KILLS = 0.7  # of the whole time
_SHARE_LINKED = 0.5  # of the lives, counted from when the target is linked: a slow draft is killed before that
_MOST_MORE_SECONDS = 120.0  # with kills, where something has not happened yet that must
_BLOCKS = ("--kv-blocks", "512")


@dataclass(slots=True)
class Tally:
    """What the soak has seen."""

    figures: list[Speculation] = field(default_factory=list)  # of every answer whose end was seen
    num_partial: int = 0
    num_tokens: int = 0
    num_kills: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, answer: Answer) -> None:
        """Count one answer."""
        self.num_tokens += len(answer.tokens)
        self.num_partial += not answer.is_whole
        if answer.result is not None:
            self.figures.append(answer.result.speculation)

    def sum(self, figure: str) -> int:
        """One of the figures, over all answers."""
        return sum(getattr(figures, figure) for figures in self.figures)

    def missing_evidence(self) -> list[str]:
        """What must have happened for the rest to mean something."""
        predicted, accepted = self.sum("predicted"), self.sum("accepted")
        happened = {
            "whole answers": len(self.figures),
            "answers cut short": self.num_partial,
            "kills": self.num_kills,
            "losses in a stream": self.sum("draft_losses"),
            "returns in a stream": self.sum("draft_returns"),
            "accepted predictions": accepted,
            "rejected predictions": predicted - accepted,
        }
        return [f"there were no {name}" for name, count in happened.items() if count == 0]


class Soak:
    """One run: the streams, whoever kills the draft, and whoever watches the memory."""

    def __init__(self, target: DraftedTarget, draft: Service, plain: Service, *, seconds: float, seed: int) -> None:
        self._target, self._draft, self._plain = target, draft, plain
        self._seconds = seconds
        self._kills_end = time.monotonic() + _SHARE_WITH_KILLS * seconds
        self._end = math.inf  # until the kills are over
        self._places = asyncio.Semaphore(NUM_STREAMS)
        self._rng = random.Random(seed)
        self.memory = {"target": MemoryCurve(), "draft": MemoryCurve()}
        self.tally = Tally()

    async def run(self) -> None:
        """Stream, kill and watch until the time is over, then see that nothing is left."""
        streams = [self._stream(random.Random(self._rng.random())) for _ in range(_NUM_CLIENTS)]
        await asyncio.gather(*streams, self._kill(), self._watch())
        await self._check_free()
        for name, curve in self.memory.items():
            self.tally.problems += [f"the {name}: {problem}" for problem in curve.problems()]
        self.tally.problems += self.tally.missing_evidence()

    async def _stream(self, rng: random.Random) -> None:
        async with (
            AsyncClient(self._target.service.address, max_retries=0) as client,
            AsyncClient(self._plain.address, max_retries=0) as plain,
        ):
            while time.monotonic() < self._end:
                request = SoakRequest.draw(rng)
                try:
                    async with self._places:
                        answer = await request.send(client)
                    difference = answer.difference(await request.reference(plain))
                except OutriderError as error:
                    self._complain(f"{type(error).__name__} {error}: {request}")
                    continue
                self.tally.add(answer)
                if difference:
                    self._complain(f"{difference}: {request}")

    def _complain(self, problem: str) -> None:
        self.tally.problems.append(problem)
        print(f"soak: {problem}", flush=True)

    async def _kill(self) -> None:
        while self._is_to_be_killed():
            left = max(self._kills_end - time.monotonic(), _LIFE_SECONDS[0])
            await asyncio.sleep(min(left, self._rng.uniform(*_LIFE_SECONDS)))
            self._draft.kill()
            self.tally.num_kills += 1
            await asyncio.sleep(self._rng.uniform(*_DOWN_SECONDS))
            if self._rng.random() < _SHARE_LINKED:
                await self._target.start_draft(self._draft)
            else:
                self._draft.start()
        self._end = time.monotonic() + (1 - _SHARE_WITH_KILLS) * self._seconds

    def _is_to_be_killed(self) -> bool:
        late = time.monotonic() - self._kills_end
        return late < 0 or (late < _MOST_MORE_SECONDS and bool(self.tally.missing_evidence()))

    async def _watch(self) -> None:
        interval = self._seconds / 100
        while time.monotonic() < self._end:
            self.memory["target"].add(self._target.service.resident_bytes)
            if self._end < math.inf:
                self.memory["draft"].add(self._draft.resident_bytes)
            await asyncio.sleep(interval)

    async def _check_free(self) -> None:
        """Closing reaches the draft a moment later than the client."""
        services = {"target": self._target.service, "draft": self._draft}
        with suppress(TimeoutError):
            await until(lambda: not any(service.num_used_blocks for service in services.values()))
        for name, service in services.items():
            if used := service.num_used_blocks:
                self._complain(f"the {name} still uses {used} KV blocks")


@contextmanager
def running_soak(logs: Path, *, seconds: float, seed: int) -> Iterator[Soak]:
    """Start all services, and end them."""
    draft_address = f"127.0.0.1:{free_port()}"
    options = (*_BLOCKS, "--max-sequences", str(_NUM_CLIENTS))
    target = Service("target", DEMO_TARGET, logs, "--draft", draft_address, *options)
    plain = Service("target", DEMO_TARGET, _subfolder(logs, "plain"), *options)
    draft = Service("draft", DEMO_DRAFT, logs, *_BLOCKS, address=draft_address)
    services = (target, plain, draft)
    try:
        for service in services:
            service.start()
        asyncio.run(_until_ready(target, plain))
        yield Soak(DraftedTarget(target, draft_address), draft, plain, seconds=seconds, seed=seed)
    finally:
        for service in services:
            service.kill()


async def _until_ready(target: Service, plain: Service) -> None:
    await target.logs(DraftedTarget.LINKED)
    await plain.logs("serving target")


def _subfolder(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def _summarise(soak: Soak, seed: int) -> None:
    tally = soak.tally
    predicted, accepted = tally.sum("predicted"), tally.sum("accepted")
    print(f"soak: seed {seed}, {len(tally.figures)} answers to their end, {tally.num_partial} cut short")
    print(f"soak: {tally.num_tokens} tokens, {predicted} predictions verified, {accepted} accepted")
    print(f"soak: {tally.num_kills} kills, {tally.sum('draft_losses')} losses and {tally.sum('draft_returns')} returns")
    for name, curve in soak.memory.items():
        print(f"soak: memory of the {name}: {curve}")
    for problem in tally.problems:
        print(f"soak: FAILED: {problem}")
    print(f"soak: {len(tally.problems)} problems", flush=True)


def main() -> int:
    """Run as long as is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.soak", description="Stream while the draft dies.")
    parser.add_argument("--minutes", type=float, default=10.0, metavar="N", help="how long (default: 10)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="of all that is random (default: the time)")
    arguments = parser.parse_args()
    seed = time.time_ns() if arguments.seed is None else arguments.seed
    with (
        tempfile.TemporaryDirectory() as logs,
        running_soak(Path(logs), seconds=60 * arguments.minutes, seed=seed) as soak,
    ):
        asyncio.run(soak.run())
        _summarise(soak, seed)
    return int(bool(soak.tally.problems))


if __name__ == "__main__":
    sys.exit(main())
