"""`python -m tests.fuzz --requests 1000000 --frames 100000`: see Fuzz; returns 1 if anything was wrong."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.fuzz import Fuzz
from tests.fuzz.fuzzed_service import fuzzed_services
from tests.fuzz.health_probe import HealthProbe


async def _run(folder: Path, arguments: argparse.Namespace, seed: int) -> int:
    print(f"fuzz: seed {seed}", flush=True)
    async with fuzzed_services(folder) as services:
        fuzz = Fuzz(*services, seed=seed)
        async with HealthProbe(services) as health:
            await fuzz.run(num_requests=arguments.requests, num_frames=arguments.frames)
    for curve in fuzz.curves:
        print(f"fuzz: {curve.name}: {curve}")
    for name, (most, usual) in health.latencies.items():
        print(f"fuzz: the {name} said within {1000 * most:.0f} ms that it is well, {1000 * usual:.0f} at p99")
    print(f"fuzz: seed {seed}, {dict(fuzz.statuses.most_common())}")
    grown = [problem for curve in fuzz.curves for problem in curve.problems()]
    for problem in (more := [*grown, *health.problems()]):
        print(f"fuzz: FAILED: {problem}")
    print(f"fuzz: {len(fuzz.problems) + len(more)} problems", flush=True)
    return int(bool(fuzz.problems or more))


def main() -> int:
    """Send as much as is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Random requests and mutated frames.")
    parser.add_argument("--requests", type=int, default=20_000, metavar="N", help="by gRPC (default: %(default)s)")
    parser.add_argument("--frames", type=int, default=5_000, metavar="N", help="connections (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="of all that is random (default: the time)")
    arguments = parser.parse_args()
    seed = time.time_ns() if arguments.seed is None else arguments.seed
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_run(Path(folder), arguments, seed))


if __name__ == "__main__":
    sys.exit(main())
