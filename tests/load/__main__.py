"""`python -m tests.load`: 2,000 callers at once, one of them with 1,000 requests; figures, and whether they will do."""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence as Seq
from dataclasses import asdict
from pathlib import Path

from tests.e2e.harness.draft_rig import Service
from tests.e2e.harness.models import DEMO_TARGET, ROOT
from tests.load.crowd import Outcome, Setting
from tests.load.watcher import Watcher

_MIB = 1 << 20
_MOST_MIB = 256  # that the server's memory may grow by
_WARM_SECONDS = 2.0


def percentile(values: Seq[float], part: float) -> float:
    """The value that this part of all is not above; 0 of none."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else 0.0


def spread(seconds: Seq[float]) -> str:
    """The median and what few are above."""
    parts = ", ".join(f"p{100 * part:g} {1000 * percentile(seconds, part):.1f}" for part in (0.5, 0.9, 0.99, 1))
    return f"{parts} ms ({len(seconds)})"


def judge(setting: Setting, outcome: Outcome, watcher: Watcher) -> bool:
    """Print each figure, and whether it will do; whether all do."""
    seconds = outcome.last_at - outcome.first_at
    num_requests = setting.num_callers + setting.num_greedy
    begun = len(outcome.modest) + len(outcome.greedy)
    fair = (setting.num_callers + 1) * seconds / max(begun, 1)  # in which the first request of every caller could start
    grown = (max(watcher.memory) - watcher.memory[0]) / _MIB
    print(f"{num_requests} requests, {outcome.num_ended} ended, {begun / seconds:.1f} begun in a second")
    print(f"{outcome.num_refused} refusals; those were told to wait {percentile(outcome.told, 0.5):.1f} s (median)")
    print(f"a refusal, as the crowd saw it, its own delays included: {spread(outcome.refusals)}")
    print(f"a refusal of the watcher's: {spread(watcher.refusals)}; health: {spread(watcher.health)}")
    print(f"begun of the greedy caller's before the last of the others was: {outcome.greedy_before}")
    print(f"a running stream's gaps: {spread(watcher.gaps)}")
    judged = [
        ("refused within, ms (p99)", 1000 * percentile(watcher.refusals, 0.99), 10.0),
        ("the others' wait for a first token, of their fair share (p99)", percentile(outcome.modest, 0.99) / fair, 2.0),
        ("health within, ms (p99)", 1000 * percentile(watcher.health, 0.99), 50.0),
        ("health within, ms (longest)", 1000 * max(watcher.health), 50.0),
        ("gaps of a running stream, in steps (p99)", percentile(watcher.steps, 0.99), 5.0),
        ("growth of the server's memory, MiB", grown, _MOST_MIB),
        ("requests of others that were not served", setting.num_callers - len(outcome.modest), 0),
        ("faults", len(outcome.faults), 0),
    ]
    for name, figure, most in judged:
        print(f"{'ok  ' if figure <= most else 'FAIL'} {name}: {figure:.2f} (at most {most:g})")
    for fault in {*outcome.faults}:
        print(f"     {fault}")
    return all(figure <= most for _, figure, most in judged)


async def _settled(service: Service) -> None:
    """Wait until the service has the memory of its KV cache, which it takes after its start."""
    before = -1
    while (now := service.resident_bytes) != before:
        before = now
        await asyncio.sleep(1.0)


async def run(service: Service, setting: Setting) -> tuple[Outcome, Watcher]:
    """The crowd in one process, the watcher in this one."""
    command = ["-m", "tests.load.crowd", service.address, json.dumps(asdict(setting))]
    await _settled(service)
    watcher = Watcher(service.address, lambda: service.resident_bytes)

    async def load() -> bytes:
        await asyncio.sleep(_WARM_SECONDS)
        watcher.begin()
        crowd = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
        said, _ = await crowd.communicate()
        return said

    loading = asyncio.ensure_future(load())
    await watcher.watch(loading)
    return Outcome(**json.loads(loading.result())), watcher


def main() -> int:
    """Run it once; 1 where a figure does not do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--callers", type=int, default=Setting.num_callers)
    parser.add_argument("--greedy", type=int, default=Setting.num_greedy, help="requests of the greedy caller")
    parser.add_argument("--seconds", type=float, default=Setting.arrival_seconds, help="in which they all come")
    parser.add_argument("--logs", type=Path, help="a folder for the server's log")
    parser.add_argument("--fronts", type=int, default=1, help="processes that have the connections")
    arguments = parser.parse_args()
    setting = Setting(num_callers=arguments.callers, num_greedy=arguments.greedy, arrival_seconds=arguments.seconds)
    with tempfile.TemporaryDirectory() as logs:
        service = Service("target", DEMO_TARGET, arguments.logs or Path(logs), "--no-lookup", fronts=arguments.fronts)
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:-1] or cores)
        service.start()
        os.sched_setaffinity(0, cores[-1:])  # and the crowd's, so that neither takes the server's time
        try:
            asyncio.run(service.logs("serving "))
            outcome, watcher = asyncio.run(run(service, setting))
            print(f"processor time of the server: {service.cpu_seconds:.1f} s")
        finally:
            service.kill()
    return 0 if judge(setting, outcome, watcher) else 1


if __name__ == "__main__":
    sys.exit(main())
