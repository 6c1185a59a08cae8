"""The soak: `python -m tests.e2e.soak --hours 1` asks for answers that end in every way there is, while the draft is
killed and both services are drained, flushed and changed.

Every answer is compared with that of a second target, to which nothing is done. In the last part of the time the draft
is not killed, so that what it holds can be watched too. Where a slow machine has not come far enough by then for the
rest to mean anything, it goes on for a while. Its report is a file.
"""

import argparse
import asyncio
import math
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from outrider import AsyncClient, OutriderError
from tests.e2e.harness.draft_rig import DraftedTarget, Service, until
from tests.e2e.harness.loop_lateness import LoopLateness
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET, ROOT
from tests.e2e.harness.process_usage import ProcessUsage
from tests.e2e.soak.soak_request import READER_TIMEOUT, SILENCE, SoakRequest
from tests.e2e.soak.soak_tally import Tally
from tests.e2e.soak.soak_troubles import SoakTroubles
from tests.harness.network.free_port import free_port

_NUM_CLIENTS = 16  # so many that all places are taken while others have their answers compared
_NUM_STREAMS = 12  # of them at once, which is more than there are places for
_SHARE_WITH_KILLS = 0.7  # of the whole time
_NUM_SAMPLES = 400
_PAUSE_SECONDS = 0.2  # after a refusal
_SHARE_LATE = 0.5  # of the time after which a target ends a stream that is not read
_REPORT = ROOT / "build" / "soak.txt"
_BLOCKS = ("--kv-blocks", "512")
_PLACES = ("--max-sequences", "8", "--max-queue", "2")
_READERS = ("--stream-capacity", "32", "--reader-timeout", str(READER_TIMEOUT))


class Soak:
    """One run: the streams, the tasks that make trouble, and those that watch."""

    def __init__(self, target: DraftedTarget, draft: Service, plain: Service, *, seconds: float, seed: int) -> None:
        self._target, self._draft, self._plain = target, draft, plain
        self._seconds, self._seed = seconds, seed
        self._began = time.monotonic()
        self._end = math.inf  # until the kills are over
        self._places = asyncio.Semaphore(_NUM_STREAMS)
        self._rng = random.Random(seed)
        self._usage = [ProcessUsage("target", target.service), ProcessUsage("target without a draft", plain)]
        self._draft_usage = ProcessUsage("draft", draft)
        self._lateness = LoopLateness()
        self.tally = Tally()

    async def run(self, troubles: SoakTroubles, report: Path | None = None) -> None:
        """Stream, make trouble and watch until the time is over, then see that nothing is left."""
        streams = [self._stream(random.Random(self._rng.random())) for _ in range(_NUM_CLIENTS)]
        looking = asyncio.create_task(self._lateness.watch())
        await asyncio.gather(
            *streams, self._kill(troubles), troubles.administer(lambda: self._is_over), self._watch(report)
        )
        looking.cancel()
        await self._check_free()
        self.tally.problems += [problem for usage in self._all_usage for curve in usage for problem in curve.problems()]
        self.tally.problems += self.tally.missing_evidence()
        self._write(report)

    def lines(self) -> list[str]:
        """The report of the run so far."""
        return [
            f"seed {self._seed}, {(time.monotonic() - self._began) / 60:.1f} of {self._seconds / 60:.1f} minutes",
            *self.tally.lines(),
            f"its own event loop was late by {self._lateness.most:.2f} s at most",
            *(f"{curve.name}: {curve}" for usage in self._all_usage for curve in usage),
            *(f"FAILED: {problem}" for problem in self.tally.problems),
            f"{len(self.tally.problems)} problems",
        ]

    @property
    def _all_usage(self) -> list[ProcessUsage]:
        return [*self._usage, self._draft_usage]

    @property
    def _is_over(self) -> bool:
        return time.monotonic() >= self._end

    async def _stream(self, rng: random.Random) -> None:
        async with self._target.connect() as client, AsyncClient(self._plain.address, max_retries=0) as plain:
            while not self._is_over:
                request = SoakRequest.draw(rng)
                try:
                    async with self._places:
                        answer = await request.send(client)
                    self.tally.add(answer)
                    if not answer.tokens:
                        await asyncio.sleep(_PAUSE_SECONDS)
                    elif difference := answer.difference(await request.reference(plain)):
                        self.tally.complain(f"{difference}: {request}")
                except OutriderError as error:
                    if SILENCE in str(error) and self._lateness.over(READER_TIMEOUT) >= _SHARE_LATE * READER_TIMEOUT:
                        self.tally.ends["whose reader was late itself"] += 1
                    else:
                        self.tally.complain(f"{type(error).__name__} {error}: {request}")

    async def _kill(self, troubles: SoakTroubles) -> None:
        await troubles.kill(self._began + _SHARE_WITH_KILLS * self._seconds)
        self._end = time.monotonic() + (1 - _SHARE_WITH_KILLS) * self._seconds

    async def _watch(self, report: Path | None) -> None:
        while not self._is_over:
            for usage in self._usage:
                usage.sample()
            if self._end < math.inf:
                self._draft_usage.sample()
            self._write(report)
            await asyncio.sleep(self._seconds / _NUM_SAMPLES)

    def _write(self, report: Path | None) -> None:
        """Write it during the run too, so that an interrupted one leaves a report."""
        if report is not None:
            report.write_text("\n".join(self.lines()) + "\n")

    async def _check_free(self) -> None:
        """Closing reaches the draft a moment later than the client."""
        services = {"target": self._target.service, "draft": self._draft}
        with suppress(TimeoutError):
            await until(lambda: not any(service.num_used_blocks for service in services.values()))
        for name, service in services.items():
            if used := service.num_used_blocks:
                self.tally.complain(f"the {name} still uses {used} KV blocks")


@contextmanager
def running_soak(logs: Path, *, seconds: float, seed: int) -> Iterator[tuple[Soak, SoakTroubles]]:
    """Start all services, and end them."""
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    draft_address, admin, draft_admin = addresses
    options = (*_BLOCKS, *_PLACES, *_READERS, "--admin-listen", admin)
    target = Service("target", DEMO_TARGET, logs, "--draft", draft_address, *options)
    plain = Service("target", DEMO_TARGET, _subfolder(logs, "plain"), *_BLOCKS, "--max-sequences", str(_NUM_CLIENTS))
    draft = Service("draft", DEMO_DRAFT, logs, *_BLOCKS, "--admin-listen", draft_admin, address=draft_address)
    services = (target, plain, draft)
    try:
        for service in services:
            service.start()
        asyncio.run(_until_ready(target, plain))
        drafted = DraftedTarget(target, draft_address)
        soak = Soak(drafted, draft, plain, seconds=seconds, seed=seed)
        rng = random.Random(seed + 1)
        yield soak, SoakTroubles(drafted, draft, soak.tally, rng, admin=admin, draft_admin=draft_admin)
    finally:
        for service in services:
            service.kill()


async def _until_ready(target: Service, plain: Service) -> None:
    await target.logs(DraftedTarget.LINKED)
    await plain.logs("serving target")


def _subfolder(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def main() -> int:
    """Run as long as is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.soak", description="Ask for answers that end anyhow.")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--hours", type=float, default=1.0, metavar="N", help="how long (default: 1)")
    length.add_argument("--minutes", type=float, default=None, metavar="N", help="or in minutes")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="of all that is random (default: the time)")
    parser.add_argument("--report", type=Path, default=_REPORT, metavar="FILE", help="what it leaves (%(default)s)")
    arguments = parser.parse_args()
    seed = time.time_ns() if arguments.seed is None else arguments.seed
    minutes = 60 * arguments.hours if arguments.minutes is None else arguments.minutes
    arguments.report.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as logs,
        running_soak(Path(logs), seconds=60 * minutes, seed=seed) as (soak, troubles),
    ):
        asyncio.run(soak.run(troubles, arguments.report))
    print("\n".join(f"soak: {line}" for line in soak.lines()), flush=True)
    return int(bool(soak.tally.problems))
