"""What hedging is worth where a replica is slow: `python -m benchmarks.hedging MODEL`.

Two targets of one model have half of the cores each, and the first one is stopped now and then, as a machine that swaps
or a device that hangs. The same prompts are asked at the same times without and with hedging, whether or not earlier
ones have been answered; a time counts from the moment when its request was due. The tokens of both are compared.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import numpy as np

from benchmarks.prompts.kinds import SHORT, prompts_of
from outrider import AsyncClient, Client
from services.cli.service_process import ServiceProcess

_SEED = 5


def main() -> None:
    """Print a line of JSON for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--hedge-after", type=float, nargs="+", default=[0.15, 0.5], metavar="SECONDS")
    parser.add_argument("--interval", type=float, default=0.5, help="seconds between two requests (%(default)s)")
    parser.add_argument("--stops", type=float, default=2.0, help="seconds of each stop (%(default)s)")
    parser.add_argument("--share", type=float, default=0.2, help="of the time that it is stopped (%(default)s)")
    parser.add_argument("--count", type=int, default=100, help="requests of each way (%(default)s)")
    parser.add_argument("--new-tokens", type=int, default=16)
    arguments = parser.parse_args()
    with _targets(arguments) as targets:
        with Client(targets[0].address) as client:
            prompts = [prompt for kind in SHORT for prompt in prompts_of(client, kind)]
        plain: list[tuple[int, ...]] = []
        for hedge_after in (None, *arguments.hedge_after):
            times, answers = asyncio.run(_ask(targets, prompts, hedge_after, arguments))
            plain = plain or answers
            print(json.dumps({"hedge_after": hedge_after, **_figures(times), "equal": answers == plain}), flush=True)


@contextmanager
def _targets(arguments: argparse.Namespace) -> Iterator[list[ServiceProcess]]:
    with ExitStack() as stack:
        log = stack.enter_context(Path("/dev/null").open("a"))
        cores = sorted(os.sched_getaffinity(0))
        command = ["--model", str(arguments.model), "--listen", "127.0.0.1:0", "--threads", "1", "--fronts", "0"]
        halves = (cores[: len(cores) // 2], cores[len(cores) // 2 :])
        targets = [stack.enter_context(ServiceProcess("target", command, cores=half, log=log)) for half in halves]
        for target in targets:
            target.wait_until_serving()
        yield targets


async def _ask(
    targets: Seq[ServiceProcess], prompts: Seq[Seq[int]], hedge_after: float | None, arguments: argparse.Namespace
) -> tuple[list[float], list[tuple[int, ...]]]:
    """Return the seconds until each first token, and the answers."""
    addresses = [target.address for target in targets]
    async with _stopped_now_and_then(targets[0], arguments), AsyncClient(*addresses, hedge_after=hedge_after) as client:
        began = time.monotonic()

        async def ask(number: int) -> tuple[float, tuple[int, ...]]:
            due, first = began + number * arguments.interval, 0.0
            await asyncio.sleep(due - time.monotonic())
            prompt, seed = prompts[number % len(prompts)], _SEED + number
            options = {"max_tokens": arguments.new_tokens, "seed": seed, "prefix_cache": False}
            async with client.stream(prompt, **options) as stream:
                async for chunk in stream:
                    first = first or (time.monotonic() - due if chunk.token_ids else 0.0)
            return first, stream.result.token_ids

        answered = await asyncio.gather(*map(ask, range(arguments.count)))
    return [first for first, _ in answered], [token_ids for _, token_ids in answered]


@asynccontextmanager
async def _stopped_now_and_then(target: ServiceProcess, arguments: argparse.Namespace) -> AsyncIterator[None]:
    chance = random.Random(_SEED)

    async def stop() -> None:
        mean = arguments.stops * (1 - arguments.share) / arguments.share
        try:
            while True:
                await asyncio.sleep(chance.expovariate(1 / mean))
                os.kill(target.pid, signal.SIGSTOP)
                await asyncio.sleep(arguments.stops)
                os.kill(target.pid, signal.SIGCONT)
        finally:
            os.kill(target.pid, signal.SIGCONT)

    stopping = asyncio.create_task(stop())
    try:
        yield
    finally:
        stopping.cancel()
        with suppress(asyncio.CancelledError):
            await stopping


def _figures(times: Seq[float]) -> dict[str, float]:
    return {f"p{part}_ms": round(1000 * float(np.percentile(times, part)), 1) for part in (50, 90, 95, 99, 100)}


if __name__ == "__main__":
    main()
