"""`python -m tests.chaos --minutes 30`: see Chaos; returns 1 if anything was wrong."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.chaos import Chaos
from tests.chaos.stand import ChaosStand


async def _run(folder: Path, seconds: float, seed: int) -> int:
    async with ChaosStand(folder) as stand:
        if stand.envoy is None:
            print("chaos: ENVOY IS NOT INSTALLED (make deploy-test INSTALLS IT): its part is left out", flush=True)
        chaos = Chaos(stand, seconds=seconds, seed=seed)
        await chaos.run()
    tally = chaos.tally
    resumed = sum(result.resumed for result in tally.results)
    print(
        f"chaos: seed {seed}, {len(tally.results)} answers, taken up again {resumed} times, "
        f"asked again by their callers {tally.num_asked_again} times"
    )
    print(f"chaos: {tally.num_refusals} refusals for load; faults: {dict(tally.faults.most_common())}")
    for problem in tally.problems:
        print(f"chaos: FAILED: {problem}")
    print(f"chaos: {len(tally.problems)} problems", flush=True)
    return int(bool(tally.problems))


def main() -> int:
    """Run as long as is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Whole answers while everything breaks.")
    parser.add_argument("--minutes", type=float, default=30.0, metavar="N", help="how long (default: 30)")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="of all that is random (default: the time)")
    arguments = parser.parse_args()
    seed = time.time_ns() if arguments.seed is None else arguments.seed
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_run(Path(folder), 60 * arguments.minutes, seed))


if __name__ == "__main__":
    sys.exit(main())
