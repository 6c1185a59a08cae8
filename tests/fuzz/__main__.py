"""`python -m tests.fuzz --requests 1000000 --frames 100000`: see Fuzz; returns 1 if anything was wrong."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.fuzz import Fuzz, fuzzed_services
from tests.rpc.health_latency import HealthLatency


async def _run(folder: Path, arguments: argparse.Namespace, seed: int) -> int:
    async with fuzzed_services(folder) as (target, draft):
        fuzz = Fuzz(target, draft, seed=seed)
        before = [service.resident_bytes for service in (target, draft)]
        with HealthLatency(target.address, time.monotonic) as health:
            await fuzz.run(num_requests=arguments.requests, num_frames=arguments.frames)
        after = [service.resident_bytes if service.is_running else 0 for service in (target, draft)]
    for name, one, other in zip(("target", "draft"), before, after, strict=True):
        print(f"fuzz: the {name} holds {other >> 20} MiB, {one >> 20} before")
    stalls = sorted(health.seconds)
    print(f"fuzz: health took {1000 * stalls[-1]:.0f} ms at most, {1000 * stalls[len(stalls) * 99 // 100]:.0f} at p99")
    print(f"fuzz: seed {seed}, {dict(fuzz.statuses.most_common())}")
    print(f"fuzz: {len(fuzz.problems)} problems", flush=True)
    return int(bool(fuzz.problems))


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
