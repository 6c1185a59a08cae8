"""What HTTP costs over the RPC: `python -m benchmarks.http_overhead MODEL`.

The same requests are sent in turn by RPC and by HTTP, one stream at a time, and then many at once. The gateway has a
core of its own.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from benchmarks.host.load import bare_request, num_tokens
from outrider import AsyncClient
from services.cli.service_process import ServiceProcess

_PROMPT = "def quicksort(items):"
_WARM_UP = 5
Ask = Callable[[int], Awaitable["Life"]]


@dataclass(frozen=True, slots=True)
class Life:
    """Seconds from the question to the first token and to the last, and how many tokens there were."""

    first: float
    last: float
    tokens: int

    @property
    def per_token(self) -> float:
        """Mean seconds between tokens."""
        return (self.last - self.first) / max(self.tokens - 1, 1)


def main() -> None:
    """Print a line of JSON for one stream at a time, and one for many."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--new-tokens", type=int, default=64)
    arguments = parser.parse_args()
    first, *others = sorted(os.sched_getaffinity(0))
    room = ["--max-sequences", str(arguments.streams), "--kv-blocks", str(arguments.streams * 8), "--threads", "1"]
    options = ["--model", str(arguments.model), "--listen", "127.0.0.1:0", "--stream-capacity", "1", *room]
    with open(os.devnull, "w") as log, ServiceProcess("target", options, cores=others or [first], log=log) as target:
        target.wait_until_serving()
        asked = ["--target", target.address, "--listen", "127.0.0.1:0"]
        with ServiceProcess("gateway", asked, cores=[first], log=log) as gateway:
            gateway.wait_until_serving()
            asyncio.run(_measure(arguments, target.address, gateway))


async def _measure(arguments: argparse.Namespace, target: str, gateway: ServiceProcess) -> None:
    async with AsyncClient(target) as client:

        async def by_rpc(seed: int) -> Life:
            return await _by_rpc(client, seed, arguments.new_tokens)

        async def by_http(seed: int) -> Life:
            return await _by_http(gateway.address, seed, arguments.new_tokens)

        for seed in range(_WARM_UP):
            await by_rpc(seed)
            await by_http(seed)
        before, lives = (
            _cpu(gateway.pid),
            [(await by_rpc(seed), await by_http(seed)) for seed in range(arguments.rounds)],
        )
        print(json.dumps(_compared(lives, _cpu(gateway.pid) - before)), flush=True)
        many = {name: await _at_once(ask, arguments.streams, gateway.pid) for name, ask in _ways(by_rpc, by_http)}
        print(json.dumps({"streams": arguments.streams, **many}), flush=True)


def _ways(by_rpc: Ask, by_http: Ask) -> Seq[tuple[str, Ask]]:
    return ("rpc", by_rpc), ("http", by_http)


def _compared(lives: Seq[tuple[Life, Life]], seconds: float) -> dict[str, float]:
    tokens = sum(http.tokens for _, http in lives)
    return {
        "rpc_first_ms": statistics.median(rpc.first for rpc, _ in lives) * 1e3,
        "http_first_ms": statistics.median(http.first for _, http in lives) * 1e3,
        "more_to_first_ms": statistics.median(http.first - rpc.first for rpc, http in lives) * 1e3,
        "more_per_token_ms": statistics.median(http.per_token - rpc.per_token for rpc, http in lives) * 1e3,
        "gateway_cpu_per_token_ms": seconds / tokens * 1e3,
    }


async def _at_once(ask: Ask, streams: int, gateway: int) -> dict[str, float]:
    began, before = time.perf_counter(), _cpu(gateway)
    lives = await asyncio.gather(*map(ask, range(streams)))
    seconds, tokens = time.perf_counter() - began, sum(life.tokens for life in lives)
    cpu = (_cpu(gateway) - before) / seconds
    return {"tokens_per_second": tokens / seconds, "gateway_cores": cpu, "tokens": tokens}


async def _by_rpc(client: AsyncClient, seed: int, new_tokens: int) -> Life:
    began, first, tokens = time.perf_counter(), 0.0, 0
    options = {"seed": seed, "max_tokens": new_tokens}
    async for chunk in client.stream(_PROMPT, ignore_eos=True, speculation="never", **options):  # type: ignore[arg-type]
        first = first or time.perf_counter()
        tokens += len(chunk.token_ids)
    return Life(first - began, time.perf_counter() - began, tokens)


async def _by_http(address: str, seed: int, new_tokens: int) -> Life:
    host, _, port = address.rpartition(":")
    asked = {"prompt": _PROMPT, "seed": seed, "max_tokens": new_tokens, "speculation": "never"}
    reader, writer = await asyncio.open_connection(host, int(port))
    began, first, answer = time.perf_counter(), 0.0, b""
    writer.write(bare_request(host, asked))
    while part := await reader.read(1 << 16):
        answer += part
        if not first and b"data:" in answer:
            first = time.perf_counter()
    writer.close()
    return Life(first - began, time.perf_counter() - began, num_tokens(answer))


def _cpu(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
