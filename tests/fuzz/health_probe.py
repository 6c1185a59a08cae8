"""HealthProbe: how long services take to answer health checks, asked by a process of its own."""

import argparse
import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence as Seq
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from tests.e2e.harness.draft_rig import Service
from tests.e2e.harness.models import ROOT
from tests.harness.processes.cpu_time import UnhinderedClock
from tests.rpc.harness.health_latency import HealthLatency

_MOST_SECONDS = 0.1


class HealthProbe:
    """Its clock stands still while the probe or the service wait for a core, so that a busy machine is no stall."""

    def __init__(self, services: Seq[Service]) -> None:
        self._services = services
        self._process: Process | None = None
        self.latencies: dict[str, list[float]] = {}
        """Of each service by its name: seconds at most, and at the 99th percentile."""

    async def __aenter__(self) -> Self:
        asked = [f"{service.name}={service.pid}={service.address}" for service in self._services]
        command = (sys.executable, "-m", "tests.fuzz.health_probe", *asked)
        self._process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process is not None
        told, _ = await self._process.communicate(b"")  # which closes its standard input
        self.latencies = json.loads(told or "{}")

    def problems(self) -> list[str]:
        """Stalls, and services that were not asked."""
        silent = [f"the {each.name} was not asked" for each in self._services if each.name not in self.latencies]
        return silent + [
            f"the {name} took {most:.3f} s of its own to say that it is well; allowed: {_MOST_SECONDS} s"
            for name, (most, _) in self.latencies.items()
            if most > _MOST_SECONDS
        ]


def main() -> int:
    """Ask until standard input ends, and print what HealthProbe reads."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.health_probe")
    parser.add_argument("services", nargs="+", metavar="NAME=PID=ADDRESS")
    probes: dict[str, HealthLatency] = {}
    with ExitStack() as stack:
        for named in parser.parse_args().services:
            name, pid, address = named.split("=")
            probes[name] = stack.enter_context(HealthLatency(address, UnhinderedClock(int(pid), os.getpid())))
        sys.stdin.read()
    seconds = {name: sorted(probe.seconds) for name, probe in probes.items() if probe.seconds}
    print(json.dumps({name: [each[-1], each[len(each) * 99 // 100]] for name, each in seconds.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
